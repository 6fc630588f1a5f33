#include "horo/base/text/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "horo/base/error.h"

namespace horo {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kByteUnits[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                               {"TiB", 0x1p40}, {"KB", 1e3},     {"kB", 1e3},     {"MB", 1e6},
                               {"GB", 1e9},     {"TB", 1e12}};
constexpr Unit kTimeUnits[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <std::size_t N>
double parse_quantity(std::string_view text, const Unit (&units)[N], std::string_view bare_unit,
                      std::string_view expected) {
  const auto fail = [&]() -> double {
    throw InvalidArgument(fmt::format("'{}' is not {}", text, expected));
  };
  const std::string_view trimmed = trim(text);
  double number = 0;
  // from_chars() does not depend on the locale, unlike strtod().
  const auto [rest, status] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(),
                                              number, std::chars_format::fixed);
  if (status != std::errc{} || number < 0 || !std::isfinite(number)) return fail();
  std::string_view unit = trim(std::string_view(rest, trimmed.data() + trimmed.size() - rest));
  if (unit.empty()) {
    // Zero needs no unit, and a duration has no default unit.
    if (number == 0) return 0;
    unit = bare_unit;
  }
  for (const Unit& candidate : units) {
    if (candidate.name != unit) continue;
    const double value = number * candidate.factor;
    if (value >= 0x1p62) return fail();  // sums of two values still fit into 64 bits
    return value;
  }
  return fail();
}

std::string with_two_decimals(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  const double value = parse_quantity(
      text, kByteUnits, "B", "a size: write a number and a unit, such as 64MiB, 512KiB or 4096");
  return static_cast<std::size_t>(std::llround(value));
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
  const double value = parse_quantity(
      text, kTimeUnits, "", "a duration: write a number and a unit, such as 500us, 20ms or 5min");
  return std::chrono::nanoseconds(std::llround(value));
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::pair<const char*, std::size_t> kUnits[] = {
      {"GiB", std::size_t{1} << 30}, {"MiB", std::size_t{1} << 20}, {"KiB", std::size_t{1} << 10}};
  for (const auto& [name, factor] : kUnits) {
    // Does not round: a size that needs more than two decimals in a unit uses a smaller unit.
    const bool has_two_decimals = bytes % (factor / 4) == 0;
    if (bytes >= factor && has_two_decimals)
      return with_two_decimals(static_cast<double>(bytes) / static_cast<double>(factor)) + " " +
             name;
  }
  return std::to_string(bytes) + " B";
}

std::string format_count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string format_duration(std::chrono::nanoseconds duration) {
  struct Unit {
    const char* name;
    double nanoseconds;
    double end;  // larger durations use the next unit
  };
  constexpr Unit kUnits[] = {{"ns", 1, 1e3},    {"us", 1e3, 1e6},      {"ms", 1e6, 1e9},
                             {"s", 1e9, 120e9}, {"min", 60e9, 7200e9}, {"h", 3600e9, 0}};
  const auto count = std::max(0.0, static_cast<double>(duration.count()));
  if (count == 0) return "0 s";
  for (const Unit& unit : kUnits) {
    // A value that rounds up to `end` uses the next unit too, such as "1 s" in place of "1e+03 ms".
    const bool is_last = unit.end == 0;
    if (!is_last && count >= unit.end * (1 - 0.5e-3)) continue;
    const double value = count / unit.nanoseconds;
    if (value >= 1000) return fmt::format("{:.0f} {}", value, unit.name);
    return fmt::format("{:.3g} {}", value, unit.name);
  }
  return "";
}

std::string format_nanoseconds(std::int64_t nanoseconds) {
  return format_duration(std::chrono::nanoseconds(nanoseconds));
}

}  // namespace horo
