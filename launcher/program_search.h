#pragma once

#include <string>
#include <string_view>

namespace horo {

/// The path of `program`: itself if it has a slash, else the first executable file of that name in
/// the directories of `path` (as in the PATH variable). Throws InvalidArgument that says what is
/// wrong with it and what to do.
std::string find_program(const std::string& program, std::string_view path);

}  // namespace horo
