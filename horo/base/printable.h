#pragma once

#include <string>
#include <string_view>

namespace horo {

/// `text` as valid UTF-8 on one line that no terminal takes for a command: control characters
/// (U+0000 to U+001F, U+007F to U+009F), the line separators U+2028 and U+2029, and bytes that are
/// not UTF-8 become "\x0a", two hexadecimal digits for each byte. Everything else stays as it is,
/// so that printable(printable(x)) is printable(x).
///
/// Names keep their bytes inside horo, since ranks match operations by them. Text is made printable
/// where it leaves: by log_message(), in every horo::Error, and in the readers and writers of
/// files.
std::string printable(std::string_view text);

}  // namespace horo
