#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The first executable file called `name` in the directories of `path` (as in the PATH variable).
std::optional<std::string> find_on_path(const std::string& name, std::string_view path);

/// The path of `program`: itself if it has a slash, else found on `path`. Throws InvalidArgument
/// that says what is wrong with it and what to do.
std::string find_program(const std::string& program, std::string_view path);

/// Refuses a file that the kernel cannot start: neither a script with an interpreter that exists
/// nor a program for this processor. Throws InvalidArgument that says what the file is. Accepts
/// everything where the kernel has handlers for further formats (binfmt_misc).
void check_program_format(const std::string& path);

}  // namespace horo
