#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace horo::metrics {

/// Names with values, as {"rank", "3"}.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// Writes Prometheus's text format, version 0.0.4: families of samples. Names of families and
/// labels are the caller's own constants; values of labels may be any bytes.
class PrometheusText {
 public:
  enum class Type { kCounter, kGauge };

  /// Begins a family, in which the samples that follow are. One without samples leaves nothing.
  void begin(std::string_view name, Type type, std::string_view help);
  void add(const Labels& labels, double value);

  const std::string& text() const { return text_; }

 private:
  std::string heading_;  // of a family that has no sample yet
  std::string name_;
  std::string text_;
};

/// The value of a label, between its quotes: backslash, quote and line feed escaped, bytes that are
/// no UTF-8 replaced by U+FFFD.
std::string escape_label(std::string_view value);
/// A number as the format has it: as many digits as it takes to read it back, or NaN, +Inf, -Inf.
std::string prometheus_number(double value);

}  // namespace horo::metrics
