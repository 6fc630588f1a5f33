#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// `word` as a POSIX shell reads it back: bare if no character of it is special, else between
/// single quotes. Newlines stay newlines.
std::string shell_quote(std::string_view word);
/// The words quoted and joined by blanks.
std::string shell_join(std::span<const std::string> words);

/// Splits `text` at blanks as a shell does, with '...', "..." and backslash; nothing is expanded.
/// Undoes shell_join(). Throws InvalidArgument if a quote is not closed.
std::vector<std::string> split_words(std::string_view text);

}  // namespace horo
