#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "horo/base/futex.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// A counter in shared memory that one rank advances and others wait for, alone in its cache lines.
/// Counters wrap: "reached" means at most 2^31 ahead.
struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
  /// Values that travel in the flag's own cache line.
  static constexpr std::size_t kInlineBytes = 56;
  std::byte inline_bytes[kInlineBytes];

  template <typename T>
  void set_inline(const T& note) {
    static_assert(sizeof(T) <= kInlineBytes);
    std::memcpy(inline_bytes, &note, sizeof note);
  }
  template <typename T>
  T get_inline() const {
    T note;
    std::memcpy(&note, inline_bytes, sizeof note);
    return note;
  }

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  /// Makes what this rank wrote before visible to those who see `target`. A sleeper that registers
  /// at this very moment may be missed; its nap is short (Waiter).
  void publish(std::uint32_t target) {
    value.store(target, std::memory_order_release);
    if (sleepers.load(std::memory_order_relaxed) != 0) futex_wake_all(value);
  }
  /// Blocks until reached(target). Returns false if that cannot happen any more because `departed`,
  /// a flag of the same rank, has been raised. `what` completes the error "waited 5min ...".
  bool wait(std::uint32_t target, const Flag& departed, const WaitPolicy& policy,
            std::string_view what);
};

}  // namespace horo::collectives
