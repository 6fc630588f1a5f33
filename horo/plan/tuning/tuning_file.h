#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/plan/tuning/tuning_search.h"

namespace horo::plan {

/// The plan and the job (or process set) for which a result is valid.
struct TuningKey {
  std::uint64_t model = 0;  ///< a signature of names, shapes, types, options and settings
  int nodes = 1;
  int ranks = 1;  ///< on all nodes together
};

/// Returns a line of a tuning file, without a newline, such as
/// "model=00c0ffee00c0ffee nodes=2 ranks=4 bucket_bytes=8388608 ring_segment_bytes=262144".
std::string tuning_line(const TuningKey& key, std::span<const Axis> axes, const Choice& choice);

/// Returns the choice for `key` in `text`, if there is one. `text` is the contents of a tuning
/// file. Ignores a line if its axes differ from `axes` or if `axes` does not contain its values,
/// because another version of horo may have written the line. If several of the other lines have
/// the key, uses the last of them. If a line is malformed, throws InvalidArgument with `path` and
/// the line number.
std::optional<Choice> find_choice(std::string_view text, const TuningKey& key,
                                  std::span<const Axis> axes, std::string_view path);

/// The comment at the beginning of a new tuning file.
extern const std::string_view kTuningFileExplanation;

}  // namespace horo::plan
