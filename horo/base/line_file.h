#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// A text file of lines in which horo keeps what one job found for later ones; lines that begin
/// with # are explanations. `setting`, the variable that names the file, begins the texts of
/// errors.
class LineFile {
 public:
  LineFile(std::string_view setting, std::string path)
      : setting_(setting), path_(std::move(path)) {}

  /// The contents; none if the file does not exist. Throws InvalidArgument if it cannot be read.
  std::optional<std::string> read() const;
  /// Adds `line` (without its end), after `explanation` where the file is new. Throws
  /// InvalidArgument if that is not possible.
  void append(std::string_view line, std::string_view explanation) const;

 private:
  [[noreturn]] void refuse(std::string_view done) const;

  std::string setting_;
  std::string path_;
};

/// Cuts the text up to `end`, or all of it, off the front of `text`, and `end` with it.
std::string_view take_until(std::string_view& text, char end);

}  // namespace horo
