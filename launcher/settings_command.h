#pragma once

#include <span>
#include <string>

namespace horo {

/// `hororun settings [--markdown]`: prints every HORO_ setting with the value in force in this
/// environment, or docs/environment.md. Throws InvalidArgument for another word, or a value that
/// does not parse.
int settings_command(std::span<const std::string> words);

}  // namespace horo
