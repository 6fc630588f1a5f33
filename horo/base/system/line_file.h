#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// A text file in which a job stores results, one per line, for later jobs. Lines that begin with #
/// are comments. `setting` is the variable that names the file. Error texts begin with `setting`.
class LineFile {
 public:
  LineFile(std::string_view setting, std::string path)
      : setting_(setting), path_(std::move(path)) {}

  /// Returns the contents, or nullopt if the file does not exist. Throws InvalidArgument if the
  /// file cannot be read.
  std::optional<std::string> read() const;
  /// Appends `line` and a newline. If the file is new or empty, writes `explanation` first. Throws
  /// InvalidArgument if the file cannot be written.
  void append(std::string_view line, std::string_view explanation) const;

 private:
  [[noreturn]] void refuse(std::string_view done) const;

  std::string setting_;
  std::string path_;
};

/// Returns the part of `text` before the first `end`, or all of it if there is none. Removes that
/// part and `end` from `text`.
std::string_view take_until(std::string_view& text, char end);

}  // namespace horo
