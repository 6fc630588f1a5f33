#include "ops/checkpoint/checkpoint_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/durable_file.h"

namespace horo::ops {
namespace {

namespace fs = std::filesystem;

// Newest first.
struct Newer {
  bool operator()(const CheckpointName& a, const CheckpointName& b) const {
    return std::pair(a.step, a.parts) > std::pair(b.step, b.parts);
  }
};
/// The parts of each checkpoint that exist.
using Found = std::map<CheckpointName, std::set<int>, Newer>;

bool is_complete(const Found::value_type& one) {
  return one.second.size() == static_cast<std::size_t>(one.first.parts);
}

/// Removes `prefix` and the number after it from the begin of `text`.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  Number number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return number;
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    files.push_back(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(fmt::format("cannot read {}: {}", directory.string(), error.message()));
  return files;
}

Found find_parts(const fs::path& directory) {
  Found found;
  for (const fs::path& file : files_in(directory))
    if (const auto parsed = parse_part_file_name(file.filename().native()))
      found[parsed->first].insert(parsed->second);
  return found;
}

// A file that cannot be removed wastes memory and does no other harm.
void remove_file(const fs::path& file) {
  std::error_code ignored;
  fs::remove(file, ignored);
}

}  // namespace

std::string part_file_name(const CheckpointName& name, int part) {
  return fmt::format("step-{:012}.part-{}-of-{}.safetensors", name.step, part, name.parts);
}

std::optional<std::pair<CheckpointName, int>> parse_part_file_name(std::string_view file) {
  std::string_view rest = file;
  const auto step = take_number<std::uint64_t>(rest, "step-");
  const auto part = take_number<int>(rest, ".part-");
  const auto parts = take_number<int>(rest, "-of-");
  if (!step || !part || !parts || *part < 0 || *part >= *parts) return std::nullopt;
  const CheckpointName name{*step, *parts};
  if (part_file_name(name, *part) != file) return std::nullopt;
  return std::pair(name, *part);
}

std::vector<CheckpointName> CheckpointDirectory::complete() const {
  std::vector<CheckpointName> names;
  for (const auto& one : find_parts(path_))
    if (is_complete(one)) names.push_back(one.first);
  return names;
}

void CheckpointDirectory::remove_old(std::size_t keep) const {
  HORO_CHECK(keep > 0, "at least 1 checkpoint must be kept");
  std::size_t newer = 0;
  for (const auto& one : find_parts(path_)) {
    if (newer >= keep)
      for (const int part : one.second) remove_file(file_of(one.first, part));
    newer += is_complete(one) ? 1 : 0;
  }
}

void CheckpointDirectory::remove_leftovers(std::uint64_t step) const {
  for (const auto& one : find_parts(path_))
    if (one.first.step > step && !is_complete(one))
      for (const int part : one.second) remove_file(file_of(one.first, part));
  for (const fs::path& file : files_in(path_)) {
    const std::string file_name = file.filename().string();
    std::string_view name = file_name;
    if (!name.ends_with(kTemporarySuffix)) continue;
    name.remove_suffix(std::string_view(kTemporarySuffix).size());
    if (parse_part_file_name(name)) remove_file(file);
  }
}

void CheckpointDirectory::set_aside(const CheckpointName& name) const {
  for (int part = 0; part < name.parts; ++part) {
    const fs::path file = file_of(name, part);
    std::error_code error;
    fs::rename(file, file.string() + ".damaged", error);
    if (error) throw Error(fmt::format("cannot rename {}: {}", file.string(), error.message()));
  }
}

}  // namespace horo::ops
