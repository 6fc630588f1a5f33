#include "horo/coordinator/negotiation/negotiator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

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

// A leader has found a wait and not sent the report yet when the operation ends with an error.
TEST(Negotiator, ErrorDiscardsUnsentReportOfItsOperation) {
  collectives::InProcessJob job(4, {.ranks_per_node = 2});
  std::latch is_found(1), is_sent(1), done(1);
  std::vector<std::jthread> others;
  for (const int rank : {1, 3})
    others.emplace_back([&, rank] {
      const auto transport = job.transport(rank);
      const ControlNetwork network(*transport);
      done.wait();
    });
  others.emplace_back([&] {
    const auto transport = job.transport(0);
    ControlNetwork network(*transport);
    is_found.wait();
    Response error;
    error.tensors = {{0, "x"}};
    error.error = ErrorKind::kShutdown;
    network.send_to_children(encode(ResponseMessage{{error}}));
    is_sent.count_down();
    done.wait();
  });
  const auto transport = job.transport(2);
  const Settings settings;
  Negotiator negotiator(*transport, settings);
  const Request request{.name = "x", .kind = Kind::kBarrier};
  const Request* const own[] = {&request};
  const auto now = std::chrono::steady_clock::now();
  negotiator.submit(own, 0, now);
  EXPECT_FALSE(negotiator.next(now));
  negotiator.look_for_stalls(now + 1h);
  is_found.count_down();
  is_sent.wait();
  EXPECT_TRUE(negotiator.next(now));
  EXPECT_FALSE(negotiator.next(now));
  EXPECT_EQ(negotiator.network().between_nodes().messages, 0u) << "it has sent the report";
  done.count_down();
}

}  // namespace
}  // namespace horo::coordinator
