#include "horo/coordinator/negotiation/negotiator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

// The leader of another node may report a wait and complete the operation in one message.
TEST(Negotiator, OperationThatCompletesWithItsReportIsNotPending) {
  collectives::InProcessJob job(2, {.ranks_per_node = 1});
  const Request request{.name = "x", .kind = Kind::kBarrier};
  std::jthread leader([&] {
    const auto transport = job.transport(1);
    ControlNetwork network(*transport);
    RequestMessage message;
    message.contributions.push_back(contribution_of(1, request));
    message.waiting.push_back({"x", 4s, {1}});
    network.send_to_parent(encode(message), true);
  });
  const auto transport = job.transport(0);
  const Settings settings;
  Negotiator negotiator(*transport, settings);
  const auto now = std::chrono::steady_clock::now();
  const Request* const own[] = {&request};
  negotiator.submit(own, 0, now);
  std::optional<ResponseMessage> answer;
  for (int polls = 0; polls < 20'000 && !answer; ++polls) {
    answer = negotiator.next(now + std::chrono::milliseconds(polls));
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->responses.size(), 1u);
  EXPECT_EQ(answer->responses[0].error, ErrorKind::kNone);
  const auto after_every_timeout = now + 24h;
  negotiator.look_for_stalls(after_every_timeout);
  EXPECT_FALSE(negotiator.next(after_every_timeout)) << "the operation has timed out";
}

}  // namespace
}  // namespace horo::coordinator
