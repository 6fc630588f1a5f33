#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace horo::coordinator {

/// Who runs the coordinator's rounds: its own thread, or a caller who waits. One of them at a time;
/// what the last one wrote the next one sees.
class Charge {
 public:
  /// Does not block.
  bool take() { return !is_taken_.exchange(true); }
  /// Wakes who stands by.
  void give_back();
  /// Counts what may end stand_by(); to be read before take().
  std::uint32_t changes() const { return changes_; }
  /// Sleeps while somebody else is in charge, at most `timeout`; not at all if changes() is no
  /// longer `seen`. May return early.
  void stand_by(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes who stands by, for another reason.
  void wake();

 private:
  std::atomic<bool> is_taken_{false};
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<bool> is_standing_by_{false};
};

}  // namespace horo::coordinator
