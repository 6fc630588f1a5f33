#include "ops/data/records/labelled_files.h"

#include <fmt/core.h>

#include <algorithm>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> files_below(const fs::path& folder, const fs::path& base) {
  std::vector<std::string> names;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      names.push_back(entry->path().lexically_relative(base).string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> sub_folders(const fs::path& folder) {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && !is_hidden(entry.path())) result.push_back(entry.path());
  std::ranges::sort(result);
  return result;
}

}  // namespace

LabelledFiles list_labelled_files(const fs::path& folder) try {
  HORO_CHECK(fs::is_directory(folder),
             fmt::format("{}: is not a directory; name the one with a sub-folder for each class",
                         folder.string()));
  LabelledFiles result{.folder = folder};
  for (const fs::path& of_class : sub_folders(folder)) {
    const auto label = static_cast<std::int32_t>(result.classes.size());
    result.classes.push_back(of_class.filename().string());
    for (std::string& name : files_below(of_class, folder))
      result.files.push_back({std::move(name), label});
  }
  HORO_CHECK(!result.files.empty(),
             fmt::format("{}: has no files in sub-folders; put the files of each class into a "
                         "sub-folder of its own",
                         folder.string()));
  return result;
} catch (const fs::filesystem_error& error) {
  throw InvalidArgument(
      fmt::format("{}: cannot be listed: {}", error.path1().string(), error.code().message()));
}

}  // namespace horo::ops
