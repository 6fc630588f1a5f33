#include "horo/init_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

namespace horo {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Console {
 public:
  auto listener() {
    return [this](const std::string& text) {
      const std::scoped_lock lock(mutex_);
      said_.push_back(text);
    };
  }
  std::vector<std::string> said() {
    const std::scoped_lock lock(mutex_);
    return said_;
  }

 private:
  std::mutex mutex_;  // guards the one below
  std::vector<std::string> said_;
};

TEST(InitNotice, SaysAgainAndAgainThatTheRankWaitsInInit) {
  Console console;
  const InitNotice notice("rank 3 (host b, pid 7)", 20ms, 10ms, console.listener());
  for (int i = 0; i < 30000 && console.said().size() < 3; ++i) std::this_thread::sleep_for(1ms);
  ASSERT_GE(console.said().size(), 3u);
  EXPECT_THAT(console.said(), Each(AllOf(StartsWith("rank 3 (host b, pid 7) has waited "),
                                         HasSubstr("in horo::init() for other ranks"),
                                         HasSubstr("have not called it"))));
}

TEST(InitNotice, SaysNothingOnceAllHaveCome) {
  Console console;
  for (int i = 0; i < 100; ++i) const InitNotice notice("a rank", 1h, 1h, console.listener());
  EXPECT_THAT(console.said(), IsEmpty());
}

}  // namespace
}  // namespace horo
