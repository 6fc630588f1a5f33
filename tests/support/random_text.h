#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

namespace horo {

/// Generates random names: letters, control characters, escape sequences, whole and truncated UTF-8
/// sequences of every length, and arbitrary bytes.
class RandomText {
 public:
  explicit RandomText(std::uint32_t seed) : random_(seed) {}

  std::string next(std::size_t most_parts) {
    static constexpr std::string_view kParts[] = {
        "fc1.weight",   "\n",       "\r\n",         "\x1b[2J",      "\x1b]0;t\x07",
        "\t",           "\xc2\x9b", "\xc3\xb6",     "\xe6\x97\xa5", "\xf0\x9f\x99\x82",
        "\xe2\x80\xa8", "\x7f",     "\"",           "\\",           "\\x0a",
        "{}",           "\xf0\x9f", "\xed\xa0\x80", "\xc0\x80",     "'",
        "=,",           " "};
    std::string text = "n";
    for (std::size_t parts = random_() % (most_parts + 1); parts > 0; --parts)
      if (random_() % 3 == 0)
        text += static_cast<char>(random_() % 256);
      else
        text += kParts[random_() % std::size(kParts)];
    return text;
  }

 private:
  std::mt19937 random_;
};

/// Whether `text` is valid UTF-8. nlohmann's writer throws on other bytes.
inline bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

/// Whether `text` is UTF-8 without control characters: C0, DEL, or C1 in its two-byte form.
inline bool is_clean_line(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0)
      return false;
  }
  return is_utf8(text);
}

/// Like is_clean_line(), but allows line breaks.
inline bool is_clean_text(std::string_view text) {
  std::string joined(text);
  std::erase(joined, '\n');
  return is_clean_line(joined);
}

}  // namespace horo
