#include "collectives/device/choose_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using Gpus = std::vector<std::string>;

// Returns the choice of each rank, or the text of its error.
std::vector<std::string> choices(const std::vector<Gpus>& gpus_of, bool may_share) {
  const int ranks = static_cast<int>(gpus_of.size());
  std::vector<std::string> choice_of(gpus_of.size());
  contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives control(*peers, 4096);
    const auto r = static_cast<std::size_t>(rank);
    try {
      choice_of[r] = std::to_string(choose_gpu(
          control, transport.topology(), [&] { return gpus_of[r]; }, may_share));
    } catch (const DeviceError& error) {
      choice_of[r] = error.what();
    }
  });
  return choice_of;
}

TEST(ChooseGpu, RanksExchangeGpus) {
  EXPECT_EQ(choices({{"0000:01:00.0"}}, false), (Gpus{"0"}));
  const Gpus three = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
  EXPECT_EQ(choices({three, three, three}, false), (Gpus{"0", "1", "2"}));
  EXPECT_EQ(choices({{three[0]}, {three[1]}, {three[2]}, {"0000:04:00.0"}}, false),
            (Gpus{"0", "0", "0", "0"}));
}

TEST(ChooseGpu, RejectsOnAllRanks) {
  const Gpus one = {"0000:01:00.0"};
  const auto shared = choices({one, {"0000:02:00.0"}, one}, false);
  EXPECT_THAT(shared[0], testing::HasSubstr("HORO_GPU_OVERSUBSCRIBE=on"));
  EXPECT_THAT(shared, testing::Each(shared[0]));
  const auto none = choices({one, {}}, true);
  EXPECT_THAT(none[0], testing::HasSubstr("rank 1"));
  EXPECT_EQ(none[1], none[0]);
}

}  // namespace
}  // namespace horo::collectives
