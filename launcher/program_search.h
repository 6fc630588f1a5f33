#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// Returns the first executable file with the name `name` in the directories of `path`, which has
/// the form of the PATH variable. Returns nullopt if there is no such file.
std::optional<std::string> find_on_path(const std::string& name, std::string_view path);

/// Returns the path of `program`. This is `program` itself if it has a slash, and otherwise the
/// file found on `path`. Throws InvalidArgument, with the reason and the remedy, if there is no
/// executable file.
std::string find_program(const std::string& program, std::string_view path);

/// Throws InvalidArgument, with the kind of the file, if the file at `path` is neither a script
/// with an existing interpreter nor a program for this processor. Accepts every file if the kernel
/// has handlers for further formats (binfmt_misc), and every file that cannot be read.
void check_program_format(const std::string& path);

}  // namespace horo
