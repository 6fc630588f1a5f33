#include "collectives/selection/link_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

constexpr std::string_view kExplanation =
    "# What messages between nodes cost: seconds per message (alpha), per byte sent (beta) and "
    "per\n"
    "# byte combined (gamma). Written by horo when HORO_LINK_FILE names this file; a line removed\n"
    "# is measured again.\n";
constexpr std::array<std::string_view, 5> kKeys = {"nodes", "ranks", "alpha", "beta", "gamma"};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// done: "read" or "written".
[[noreturn]] void refuse(const std::string& path, std::string_view done) {
  throw InvalidArgument(
      fmt::format("HORO_LINK_FILE: {} cannot be {}: {}", path, done, std::strerror(errno)));
}

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

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

std::optional<std::string> read_link_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "r"));
  if (file == nullptr && errno == ENOENT) return std::nullopt;
  std::string text;
  char block[4096];
  if (file != nullptr)
    while (const std::size_t size = std::fread(block, 1, sizeof block, file.get()))
      text.append(block, size);
  if (file == nullptr || std::ferror(file.get())) refuse(path, "read");
  return text;
}

void add_to_link_file(const std::string& path, const JobShape& shape, const LinkCost& link) {
  File file(std::fopen(path.c_str(), "a"));
  if (file == nullptr) refuse(path, "written");
  std::fseek(file.get(), 0, SEEK_END);
  const std::string text = fmt::format("{}{}\n", std::ftell(file.get()) == 0 ? kExplanation : "",
                                       link_line(shape, link));
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (std::fclose(file.release()) != 0 || !is_written) refuse(path, "written");
}

}  // namespace horo::collectives
