#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace horo {

/// Returns `text` as one line of valid UTF-8 without terminal control sequences. Replaces each byte
/// of a control character (U+0000 to U+001F, U+007F to U+009F), of a line separator (U+2028,
/// U+2029) and of invalid UTF-8 by "\x" and two hexadecimal digits. Everything else is unchanged,
/// so printable(printable(x)) equals printable(x).
///
/// Names in memory keep their bytes, because ranks match operations by these bytes. Text is made
/// printable when it is logged, printed or stored in an Error, and when a flight recorder is read.
std::string printable(std::string_view text);

/// The same for each line of `text`; keeps the newlines.
std::string printable_lines(std::string_view text);

/// Returns `text` as a JSON string with quotes, in printable ASCII. Each byte that is not part of
/// valid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

/// The first character of a text.
struct FirstCharacter {
  std::size_t bytes = 1;  ///< 1 for invalid UTF-8
  bool is_printable = false;
};
/// `text` must not be empty. Async-signal-safe.
FirstCharacter first_character(std::string_view text);

}  // namespace horo
