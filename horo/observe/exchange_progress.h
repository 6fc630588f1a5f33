#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// How far a plan is with its buckets, which it exchanges one after the other, for whoever looks
/// now and then: two plain stores for each. begin() and end() are called by one thread at a time.
class ExchangeProgress {
 public:
  void begin() { advance(begun_); }
  void end() { advance(ended_); }

  /// See RankActivity::Part. The bucket that is being exchanged is called "PLAN/bucket N"; it is
  /// taken to have begun when it was first seen here.
  void add_to(RankSnapshot& snapshot, std::string_view plan, std::size_t buckets);

 private:
  static void advance(std::atomic<std::uint64_t>& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> ended_{0};
  // Of add_to() alone.
  std::uint64_t seen_begun_ = 0;
  std::uint64_t seen_ended_ = 0;
  WallTime seen_at_ = 0;
};

}  // namespace horo::observe
