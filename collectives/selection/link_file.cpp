#include "collectives/selection/link_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

constexpr std::string_view kExplanation =
    "# What messages between nodes cost: seconds per message (alpha), per byte sent (beta) and "
    "per\n"
    "# byte combined (gamma). Written by horo when HORO_LINK_FILE names this file; a line removed\n"
    "# is measured again.\n";
constexpr std::array<std::string_view, 5> kKeys = {"nodes", "ranks", "alpha", "beta", "gamma"};

double parse_value(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    throw InvalidArgument(fmt::format("'{}' is not a number of at least 0 for {}", text, key));
  return value;
}

std::array<double, kKeys.size()> parse_line(std::string_view line) {
  std::array<double, kKeys.size()> values{};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    std::string_view value = take_until(line, ' ');
    if (take_until(value, '=') != kKeys[i])
      throw InvalidArgument(fmt::format("'{}=...' is missing", kKeys[i]));
    values[i] = parse_value(kKeys[i], value);
  }
  if (!line.empty()) throw InvalidArgument(fmt::format("'{}' follows the last value", line));
  if (values[2] <= 0) throw InvalidArgument("alpha is 0");
  return values;
}

}  // namespace

std::string link_line(const JobShape& shape, const LinkCost& link) {
  return fmt::format("nodes={} ranks={} alpha={} beta={} gamma={}", shape.nodes, shape.ranks,
                     link.alpha, link.beta, link.gamma);
}

std::optional<LinkCost> find_link(std::string_view text, const JobShape& shape,
                                  std::string_view path) {
  std::optional<LinkCost> found;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_until(text, '\n');
    if (line.empty() || line.starts_with('#')) continue;
    try {
      const auto values = parse_line(line);
      // Jobs that started at the same time may each have added a line; the first one counts.
      if (found || values[0] != shape.nodes || values[1] != shape.ranks) continue;
      found = LinkCost{values[2], values[3], values[4]};
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          fmt::format("HORO_LINK_FILE: {}:{}: {}; correct it, or remove the file to measure anew",
                      path, number, error.what()));
    }
  }
  return found;
}

void add_to_link_file(const LineFile& file, const JobShape& shape, const LinkCost& link) {
  file.append(link_line(shape, link), kExplanation);
}

}  // namespace horo::collectives
