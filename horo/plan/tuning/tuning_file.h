#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/plan/tuning/tuning_search.h"

namespace horo::plan {

/// The plan and the job for which a result is valid.
struct TuningKey {
  std::uint64_t model = 0;  ///< a signature of names, shapes, types and options
  int nodes = 1;
  int ranks = 1;  ///< of the job
};

/// One line of a tuning file, such as
/// "model=00c0ffee00c0ffee nodes=2 ranks=4 bucket_bytes=8388608 ring_segment_bytes=262144".
std::string tuning_line(const TuningKey& key, std::span<const Axis> axes, const Choice& choice);

/// Returns the choice for `key` in `text`, the contents of a tuning file, if there is one. Ignores
/// a line whose axes or values are not in `axes`, because another version of horo may have written
/// it. If several of the other lines have the key, uses the last of them. If a line is malformed,
/// throws InvalidArgument with `path` and the line number.
std::optional<Choice> find_choice(std::string_view text, const TuningKey& key,
                                  std::span<const Axis> axes, std::string_view path);

/// The comment at the beginning of a new tuning file.
extern const std::string_view kTuningFileExplanation;

}  // namespace horo::plan
