#include "horo/plan/tuning/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "horo/base/error.h"
#include "horo/base/system/line_file.h"

namespace horo::plan {
namespace {

std::string key_text(const TuningKey& key) {
  return fmt::format("model={:016x} nodes={} ranks={}", key.model, key.nodes, key.ranks);
}

// Removes the key, which is the first three fields, and the space after it from `line`. Returns the
// key. Throws InvalidArgument if a field of the key is missing.
std::string_view take_key(std::string_view& line) {
  const std::string_view whole = line;
  for (const std::string_view name : {"model=", "nodes=", "ranks="})
    if (!take_until(line, ' ').starts_with(name))
      throw InvalidArgument(fmt::format("'{}...' is missing", name));
  return whole.substr(0, whole.size() - line.size() - (line.empty() ? 0 : 1));
}

std::size_t parse_value(std::string_view text) {
  std::size_t value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size())
    throw InvalidArgument(fmt::format("'{}' is not a whole number", text));
  return value;
}

// Parses all fields, even after an unknown one, so that a value that is not a whole number is
// always an error. Returns nullopt if the line has other axes or values than `axes`.
std::optional<Choice> parse_choice(std::string_view line, std::span<const Axis> axes) {
  Choice choice;
  bool is_known = true;
  for (std::size_t a = 0; !line.empty(); ++a) {
    std::string_view text = take_until(line, ' ');
    const std::string_view name = take_until(text, '=');
    const std::size_t value = parse_value(text);
    if (a >= axes.size() || axes[a].name != name) {
      is_known = false;
      continue;
    }
    const auto found = std::ranges::find(axes[a].values, value);
    is_known = is_known && found != axes[a].values.end();
    choice.push_back(static_cast<std::size_t>(found - axes[a].values.begin()));
  }
  if (!is_known || choice.size() != axes.size()) return std::nullopt;
  return choice;
}

}  // namespace

const std::string_view kTuningFileExplanation =
    "# Result of tuning for a set of gradients on a shape of job. Written by horo when\n"
    "# HORO_AUTOTUNE names this file; remove a line to repeat its search.\n";

std::string tuning_line(const TuningKey& key, std::span<const Axis> axes, const Choice& choice) {
  std::string line = key_text(key);
  for (std::size_t a = 0; a < axes.size(); ++a)
    line += fmt::format(" {}={}", axes[a].name, axes[a].values[choice[a]]);
  return line;
}

// Checks every line, even lines with other keys, so that a damaged file is reported at once. If
// several lines match, the last one is the newest, because results are appended.
std::optional<Choice> find_choice(std::string_view text, const TuningKey& key,
                                  std::span<const Axis> axes, std::string_view path) {
  const std::string wanted = key_text(key);
  std::optional<Choice> found;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = take_until(text, '\n');
    if (line.empty() || line.starts_with('#')) continue;
    try {
      const bool is_wanted = take_key(line) == wanted;
      const std::optional<Choice> choice = parse_choice(line, axes);
      if (is_wanted && choice) found = choice;
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format(
          "HORO_AUTOTUNE: {}:{}: {}; correct it, or remove the line to repeat the search", path,
          number, error.what()));
    }
  }
  return found;
}

}  // namespace horo::plan
