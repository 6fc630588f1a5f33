#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace horo::metrics {

/// Phases that are told apart; what is beyond counts as the last one, kOtherPhases.
inline constexpr std::size_t kMostPhases = 16;
inline constexpr std::string_view kOtherPhases = "(others)";

/// Nanoseconds by phase, in the order of PhaseTimes::names().
using PhaseNanoseconds = std::array<std::int64_t, kMostPhases>;

/// How long a rank has been in each of its phases and pauses. Where they nest, the time is the
/// innermost one's, so that all of them together are never more than the time that has passed. One
/// that ends before others that began after it leaves those open. Used by one thread at a time;
/// times are ns of one clock.
class PhaseTimes {
 public:
  /// Returns its number, never 0.
  std::uint64_t begin(std::string_view name, std::int64_t now);
  /// Ends that number, if it is open.
  void end(std::uint64_t number, std::int64_t now);

  /// Until `now`, also of those that are open.
  PhaseNanoseconds totals(std::int64_t now) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::size_t index_of(std::string_view name);
  void charge(std::int64_t now);

  std::vector<std::string> names_;
  struct Open {
    std::uint64_t number = 0;
    std::size_t index = 0;
  };
  std::vector<Open> open_;  // the innermost last
  std::uint64_t begun_ = 0;
  PhaseNanoseconds totals_{};
  std::int64_t charged_ = 0;  // until when totals_ counts, if any is open
};

}  // namespace horo::metrics
