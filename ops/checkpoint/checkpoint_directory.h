#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::ops {

/// A checkpoint: the state after `step` steps, in one or several files (parts), each written by one
/// rank.
struct CheckpointName {
  std::uint64_t step = 0;
  int parts = 1;
  friend bool operator==(const CheckpointName&, const CheckpointName&) = default;
};

/// "step-000000001200.part-0-of-2.safetensors"
std::string part_file_name(const CheckpointName& name, int part);

/// The inverse of part_file_name(): the checkpoint and the part. Nothing for other names.
std::optional<std::pair<CheckpointName, int>> parse_part_file_name(std::string_view file);

/// The checkpoints in a directory. Parts are written independently of each other (write_durably()):
/// a checkpoint is complete once all of its parts exist. Objects of several processes may use the
/// same directory; only one of them may remove files.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file_of(const CheckpointName& name, int part) const {
    return path_ / part_file_name(name, part);
  }
  /// The complete checkpoints, newest first. None if the directory does not exist. Throws Error,
  /// with the path, if it cannot be read.
  std::vector<CheckpointName> complete() const;
  /// Removes what is older than the `keep` newest complete checkpoints; `keep` must be at least 1.
  void remove_old(std::size_t keep) const;
  /// Removes what a stopped run has left behind: incomplete checkpoints after `step`, and files
  /// that were not completely written.
  void remove_leftovers(std::uint64_t step) const;
  /// Renames the files of a checkpoint that cannot be used to NAME.damaged, so that it is no longer
  /// in complete().
  void set_aside(const CheckpointName& name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace horo::ops
