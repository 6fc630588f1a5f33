#include "ops/train/update/local_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

/// Ranges of at most `limit` elements, each as long as possible. A larger parameter is a range of
/// its own.
std::vector<ParameterRange> ranges_up_to(std::span<const std::size_t> counts, std::size_t limit) {
  std::vector<ParameterRange> ranges;
  std::size_t size = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (ranges.empty() || size + counts[i] > limit) {
      ranges.push_back({i, i});
      size = 0;
    }
    ranges.back().end = i + 1;
    size += counts[i];
  }
  return ranges;
}

}  // namespace

LocalSteps local_sgd(std::size_t count) { return {.count = count}; }

LocalSteps diloco(std::size_t count, std::size_t fragments, std::size_t overlap) {
  return {.count = count,
          .fragments = fragments,
          .overlap = overlap,
          .outer_rate = 0.7f,
          .outer_momentum = 0.9f};
}

std::string describe(const LocalSteps& steps) {
  if (steps.count == 0) return "off";
  return fmt::format(
      "{{count {}, fragments {}, overlap {}, mixing {}, outer_rate {}, outer_momentum {}}}",
      steps.count, steps.fragments, steps.overlap, steps.mixing, steps.outer_rate,
      steps.outer_momentum);
}

void check(const LocalSteps& steps, std::size_t parameters) {
  if (steps.count == 0) return;
  const std::size_t most = std::min(steps.count, parameters);
  HORO_CHECK(steps.fragments >= 1 && steps.fragments <= most,
             fmt::format("local steps: {} fragments of {} parameters, exchanged every {} steps; "
                         "choose 1 to {} fragments",
                         steps.fragments, parameters, steps.count, most));
  HORO_CHECK(steps.overlap < steps.count,
             fmt::format("local steps: an overlap of {} steps with an exchange every {} steps; "
                         "choose an overlap below the steps between exchanges",
                         steps.overlap, steps.count));
  HORO_CHECK(steps.mixing >= 0 && steps.mixing < 1,
             fmt::format("local steps: mixing is {}; choose 0 to below 1", steps.mixing));
  HORO_CHECK(std::isfinite(steps.outer_rate) && steps.outer_rate > 0,
             fmt::format("local steps: outer_rate is {}; choose a rate above 0", steps.outer_rate));
  HORO_CHECK(
      steps.outer_momentum >= 0 && steps.outer_momentum < 1,
      fmt::format("local steps: outer_momentum is {}; choose 0 to below 1", steps.outer_momentum));
}

// Searches for the smallest limit that needs no more ranges than fragments. If it needs fewer,
// ranges are divided, which makes none larger.
std::vector<ParameterRange> split_into_fragments(std::span<const std::size_t> counts,
                                                 std::size_t fragments) {
  std::size_t low = *std::ranges::max_element(counts);
  std::size_t high = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (ranges_up_to(counts, middle).size() <= fragments)
      high = middle;
    else
      low = middle + 1;
  }
  std::vector<ParameterRange> ranges = ranges_up_to(counts, low);
  for (std::size_t i = 0; ranges.size() < fragments;) {
    if (ranges[i].end - ranges[i].first == 1) {
      ++i;
      continue;
    }
    const std::size_t last = ranges[i].end - 1;
    ranges.insert(ranges.begin() + static_cast<std::ptrdiff_t>(i) + 1, {last, ranges[i].end});
    ranges[i].end = last;
  }
  return ranges;
}

bool is_exchanged_after(const LocalSteps& steps, std::size_t fragment, std::uint64_t done) {
  return done % steps.count == steps.count * (fragment + 1) / steps.fragments % steps.count;
}

}  // namespace horo::ops
