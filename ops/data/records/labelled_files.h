#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace horo::ops {

/// The files of a folder with one sub-folder per class.
struct LabelledFiles {
  struct File {
    std::string name;        ///< relative to the folder, such as "cat/0017.jpg"
    std::int32_t label = 0;  ///< the index of its class
  };
  std::filesystem::path folder;
  std::vector<std::string> classes;  ///< the names of the sub-folders, sorted
  std::vector<File> files;           ///< sorted by class, then by name

  std::filesystem::path path_of(std::size_t index) const { return folder / files[index].name; }
};

/// Lists the regular files in the sub-folders of `folder`, at any depth, without those whose names
/// begin with a dot. The order is the same on every rank. Throws InvalidArgument, one line with the
/// folder, if it cannot be read or has no sub-folder with a file.
LabelledFiles list_labelled_files(const std::filesystem::path& folder);

}  // namespace horo::ops
