#include "horo/base/text/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace horo {
namespace {

constexpr bool is_plain_ascii(char c) { return c >= 0x20 && c < 0x7f; }

struct Character {
  std::size_t bytes = 1;
  char32_t code = 0;
  bool is_valid = false;
};

// Returns the first character of `text`, which is not empty. Rejects what RFC 3629 rejects:
// incomplete characters, overlong forms, surrogates and codes above U+10FFFF.
Character decode_first(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {.bytes = 1, .code = lead, .is_valid = true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {.bytes = bytes, .code = code, .is_valid = true};
}

constexpr bool is_printable(char32_t code) {
  return code >= 0x20 && (code < 0x7f || code > 0x9f) && code != 0x2028 && code != 0x2029;
}

}  // namespace

FirstCharacter first_character(std::string_view text) {
  const Character first = decode_first(text);
  return {.bytes = first.bytes, .is_printable = first.is_valid && is_printable(first.code)};
}

// Plain ASCII, the usual case, is copied without decoding. The escapes are printable ASCII, which
// makes the function idempotent.
std::string printable(std::string_view text) {
  if (std::ranges::all_of(text, is_plain_ascii)) return std::string(text);
  std::string result;
  while (!text.empty()) {
    const FirstCharacter first = first_character(text);
    if (first.is_printable)
      result += text.substr(0, first.bytes);
    else
      for (const char c : text.substr(0, first.bytes))
        fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned char>(c));
    text.remove_prefix(first.bytes);
  }
  return result;
}

// Escapes DEL and everything outside ASCII, so that a terminal interprets no character as a control
// sequence. JSON writes codes above U+FFFF as a pair of surrogates (RFC 8259, section 7).
std::string json_string(std::string_view text) {
  std::string result = "\"";
  const auto escape = [&](char32_t unit) {
    fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<unsigned>(unit));
  };
  while (!text.empty()) {
    const Character first = decode_first(text);
    const char32_t code = first.is_valid ? first.code : 0xfffd;
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
    if (const std::size_t at = kEscaped.find(text.front()); at != std::string_view::npos) {
      result += '\\';
      result += "\"\\bfnrt"[at];
    } else if (code >= 0x10000) {
      escape(0xd800 + ((code - 0x10000) >> 10));
      escape(0xdc00 + ((code - 0x10000) & 0x3ff));
    } else if (code >= 0x20 && code < 0x7f) {
      result += static_cast<char>(code);
    } else {
      escape(code);
    }
    text.remove_prefix(first.bytes);
  }
  return result += '"';
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += printable(text.substr(0, end));
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace horo
