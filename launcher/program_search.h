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

}  // namespace horo
