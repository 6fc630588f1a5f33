#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The first executable file called `name` in the directories of `path` (as in the PATH variable).
std::optional<std::string> find_on_path(const std::string& name, std::string_view path);

/// The path of `program`: `program` itself if it has a slash, otherwise the file found on `path`.
/// Throws InvalidArgument with the reason and the remedy.
std::string find_program(const std::string& program, std::string_view path);

/// Throws InvalidArgument with the kind of the file if the kernel cannot start it. It must be a
/// script with an existing interpreter, or a program for this processor. Accepts everything if the
/// kernel has handlers for further formats (binfmt_misc).
void check_program_format(const std::string& path);

}  // namespace horo
