#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include "horo/horo.h"
#include "horo/testing.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using testing::run_ranks;

// Sets HORO_TEST_DELAY while it exists.
class TestDelay {
 public:
  explicit TestDelay(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, value, 1);
  }
  ~TestDelay() {
    if (before_)
      setenv(kName, before_->c_str(), 1);
    else
      unsetenv(kName);
  }
  TestDelay(const TestDelay&) = delete;
  TestDelay& operator=(const TestDelay&) = delete;

 private:
  static constexpr const char* kName = "HORO_TEST_DELAY";
  std::optional<std::string> before_;
};

// Three sums on three ranks, each on its own node.
void sum_between_nodes() {
  run_ranks(3,
            [](Context& ctx) {
              for (int step = 0; step < 3; ++step) {
                std::vector<float> x(5, static_cast<float>(ctx.rank() + step));
                ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
                for (const float sum : x) ASSERT_EQ(sum, static_cast<float>(3 + 3 * step));
              }
            },
            {.environment = {"HORO_RANKS_PER_NODE=1"}});
}

TEST(RunRanks, EnvironmentDelaysMessages) {
  // A step has at least one round of negotiation and one of the sum, with delays of 10 ms on
  // average.
  const TestDelay delay("20ms");
  const auto start = std::chrono::steady_clock::now();
  sum_between_nodes();
  EXPECT_GT(std::chrono::steady_clock::now() - start, 20ms);
}

TEST(RunRanks, RejectsInvalidDelay) {
  const TestDelay delay("soon");
  try {
    sum_between_nodes();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("HORO_TEST_DELAY: 'soon' is not a duration"))
        << error.what();
  }
}

}  // namespace
}  // namespace horo
