#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/tuning/tuning_search.h"

namespace horo::tuning {

/// What a result was found for, and therefore holds for.
struct TuningKey {
  std::uint64_t model = 0;  ///< a signature of names, shapes, types and options
  int nodes = 1;
  int ranks = 1;  ///< in all
};

/// One line of a tuning file, such as
/// "model=00c0ffee00c0ffee nodes=2 ranks=4 bucket_bytes=8388608 segment_bytes=262144".
std::string tuning_line(const TuningKey& key, std::span<const Axis> axes, const Choice& choice);

/// The choice that `text`, the contents of a tuning file, has for `key`, if any: the last line of
/// that key counts. A line with other axes than these, or with a value that is not among an axis's,
/// is of another version of horo and is passed over. Throws InvalidArgument, naming `path` and the
/// line, if a line is not one at all.
std::optional<Choice> find_choice(std::string_view text, const TuningKey& key,
                                  std::span<const Axis> axes, std::string_view path);

/// Stands at the head of a new tuning file.
extern const std::string_view kTuningFileExplanation;

}  // namespace horo::tuning
