#include "horo/metrics/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

#include "horo/base/printable.h"

namespace horo::metrics {
namespace {

std::string escape(std::string_view text, bool is_quoted) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '\\' || (c == '"' && is_quoted))
      escaped += {'\\', c};
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string escape_label(std::string_view value) { return escape(value, true); }

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void PrometheusText::begin(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  heading_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escape(help, false), name,
                         type == Type::kCounter ? "counter" : "gauge");
}

void PrometheusText::add(const Labels& labels, double value) {
  text_ += heading_;
  heading_.clear();
  text_ += name_;
  std::string_view separator = "{";
  for (const auto& [label, content] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", separator, label, escape_label(content));
    separator = ",";
  }
  text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", prometheus_number(value));
}

}  // namespace horo::metrics
