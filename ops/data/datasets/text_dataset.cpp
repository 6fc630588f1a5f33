#include "ops/data/datasets/text_dataset.h"

#include <fmt/core.h>

#include <cstring>
#include <set>
#include <utility>

#include "horo/base/error.h"
#include "ops/data/file_bytes.h"

namespace horo::ops {
namespace {

/// The number of bytes of the UTF-8 character at the beginning of `text`; 0 if there is none.
/// Rejects bytes that cannot begin a character and incomplete ones; overlong forms are accepted.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80             ? 1
                            : (first & 0xe0) == 0xc0 ? 2
                            : (first & 0xf0) == 0xe0 ? 3
                            : (first & 0xf8) == 0xf0 ? 4
                                                     : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return bytes;
}

/// Calls use(character) for each character of a UTF-8 text.
template <typename Use>
void for_each_character(std::string_view text, Use use) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at));
    HORO_CHECK(bytes > 0,
               fmt::format("the text is not UTF-8 at byte {}; use bytes as symbols", at));
    use(text.substr(at, bytes));
    at += bytes;
  }
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> symbols, bool has_bytes)
    : symbols_(std::move(symbols)), has_bytes_(has_bytes) {
  for (std::size_t i = 0; i < symbols_.size(); ++i)
    token_of_.emplace(symbols_[i], static_cast<std::int32_t>(i));
}

Vocabulary Vocabulary::of_bytes() {
  std::vector<std::string> symbols;
  for (int byte = 0; byte < 256; ++byte) symbols.emplace_back(1, static_cast<char>(byte));
  return {std::move(symbols), true};
}

Vocabulary Vocabulary::of_characters(std::string_view text) {
  std::set<std::string, std::less<>> characters;
  for_each_character(text, [&](std::string_view character) {
    if (!characters.contains(character)) characters.emplace(character);
  });
  return {{characters.begin(), characters.end()}, false};
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  const auto add = [&](std::string_view symbol) {
    const auto found = token_of_.find(symbol);
    HORO_CHECK(found != token_of_.end(),
               fmt::format("the character '{}' is not in the vocabulary of the text", symbol));
    tokens.push_back(found->second);
  };
  if (has_bytes_)
    for (std::size_t i = 0; i < text.size(); ++i) add(text.substr(i, 1));
  else
    for_each_character(text, add);
  return tokens;
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) text += symbols_.at(static_cast<std::size_t>(token));
  return text;
}

Text::Text(std::string_view content, Symbols symbols)
    : vocabulary(symbols == Symbols::kBytes ? Vocabulary::of_bytes()
                                            : Vocabulary::of_characters(content)),
      tokens(vocabulary.encode(content)) {}

Text read_text(const std::filesystem::path& file, Text::Symbols symbols) {
  const std::vector<std::uint8_t> bytes = read_file_bytes(file);
  try {
    return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, symbols};
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", file.string(), error.what()));
  }
}

TextDataset::TextDataset(std::shared_ptr<const Text> text, Split split,
                         const TextDatasetOptions& options)
    : text_(std::move(text)),
      tokens_(text_->tokens),
      window_(options.window),
      stride_(options.stride > 0 ? options.stride : options.window) {
  HORO_CHECK(options.window > 0, "text data set: window is 0; must be at least 1");
  HORO_CHECK(options.test_share > 0 && options.test_share < 1,
             fmt::format("text data set: test_share is {}; must be above 0 and below 1",
                         options.test_share));
  const auto all = static_cast<double>(tokens_.size());
  const std::size_t first_test =
      tokens_.size() - static_cast<std::size_t>(all * options.test_share);
  const bool is_training = split == Split::kTrain;
  tokens_ = is_training ? tokens_.first(first_test) : tokens_.subspan(first_test);
  HORO_CHECK(tokens_.size() > window_,
             fmt::format("text data set: the {} part of the text has {} tokens, but a window of {} "
                         "needs {}; use a longer text or a shorter window",
                         is_training ? "training" : "test", tokens_.size(), window_, window_ + 1));
}

void TextDataset::read(std::size_t index, std::span<std::byte> input,
                       std::span<std::byte> target) const {
  HORO_CHECK(index < size(), fmt::format("sample {} of a data set of {}", index, size()));
  const auto from = tokens_.subspan(index * stride_, window_ + 1);
  std::memcpy(input.data(), from.data(), input.size());
  std::memcpy(target.data(), from.data() + 1, target.size());
}

}  // namespace horo::ops
