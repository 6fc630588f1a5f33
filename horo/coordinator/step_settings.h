#pragma once

#include <optional>
#include <string>
#include <vector>

namespace horo::coordinator {

/// What a plan does in a step besides exchanging its buckets; see GradientSyncOptions.
struct StepSettings {
  bool is_weighted = false;
  bool finds_unused = false;
  bool checks_finite = false;
  std::optional<double> clip_norm;
  std::vector<std::string> metrics;

  /// Whether the reduced values are looked at.
  bool measures() const { return checks_finite || clip_norm.has_value(); }
  bool is_needed() const { return is_weighted || finds_unused || measures(); }
};

}  // namespace horo::coordinator
