#include "horo/base/set_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdint>

#include "horo/base/hash.h"

namespace horo {
namespace {

constexpr std::size_t kLongestPlain = 40;
constexpr std::size_t kLongest = 56;  // without the number
constexpr int kMostMembers = 1 << 20;

// A run is worth its dash from three ranks on.
std::string in_runs(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    const int stride = end < ranks.size() ? ranks[end] - ranks[begin] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    if (end - begin < 3) {
      parts.push_back(std::to_string(ranks[begin++]));
      continue;
    }
    parts.push_back(fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    if (stride != 1) parts.back() += fmt::format(":{}", stride);
    begin = end;
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string list_of(const std::vector<int>& ranks) {
  std::string plain = fmt::format("{{{}}}", fmt::join(ranks, ", "));
  if (plain.size() <= kLongestPlain) return plain;
  std::string runs = in_runs(ranks);
  if (runs.size() <= kLongest) return runs;
  const std::uint64_t hash = Hash().add_bytes(ranks.data(), ranks.size() * sizeof(int)).value();
  return fmt::format("{{{} ranks, {:08x}}}", ranks.size(), hash & 0xffffffff);
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc{} || number < 0) return std::nullopt;
  text = {rest, static_cast<std::size_t>(end - rest)};
  return number;
}

// A rank, or a run of ranks, is added to `members`.
bool take_run(std::string_view& text, std::vector<int>& members) {
  const auto first = take_number(text);
  const bool is_run = first && take(text, "-");
  const auto last = is_run ? take_number(text) : first;
  const auto stride = is_run && take(text, ":") ? take_number(text) : 1;
  if (!first || !last || !stride || *stride < 1 || *last < *first ||
      (*last - *first) / *stride >= kMostMembers)
    return false;
  for (std::int64_t rank = *first; rank <= *last; rank += *stride)
    members.push_back(static_cast<int>(rank));
  return true;
}

}  // namespace

std::string name_of_set(const std::vector<int>& ranks, int number) {
  return number == 1 ? list_of(ranks) : fmt::format("{}#{}", list_of(ranks), number);
}

std::optional<std::vector<int>> members_of(std::string_view process_set) {
  std::vector<int> members;
  if (!take(process_set, "{")) return std::nullopt;
  do {
    if (!take_run(process_set, members)) return std::nullopt;
  } while (take(process_set, ", "));
  if (!take(process_set, "}")) return std::nullopt;
  if (take(process_set, "#") && !take_number(process_set)) return std::nullopt;
  if (!process_set.empty()) return std::nullopt;
  return members;
}

}  // namespace horo
