#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The first executable file with the name `name` in the directories of `path`, which has the form
/// of the PATH variable. None if there is no such file.
std::optional<std::string> find_on_path(const std::string& name, std::string_view path);

/// The path of `program`. This is `program` itself if it has a slash, and otherwise the file found
/// on `path`. Throws InvalidArgument, with the reason and the remedy, if there is no executable
/// file.
std::string find_program(const std::string& program, std::string_view path);

/// Throws InvalidArgument, with the kind of the file, if the kernel cannot start the file at
/// `path`. The kernel can start a script with an existing interpreter, and a program for this
/// processor. Accepts every file if the kernel has handlers for further formats (binfmt_misc), and
/// every file that cannot be read.
void check_program_format(const std::string& path);

}  // namespace horo
