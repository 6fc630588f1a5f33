#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/dataset.h"

namespace horo::ops {

/// The symbols of a text and their tokens, numbered from 0. Immutable.
class Vocabulary {
 public:
  /// The 256 values of a byte, for any file.
  static Vocabulary of_bytes();
  /// The different characters of `text` in the order of their UTF-8 code. Throws InvalidArgument if
  /// `text` is not UTF-8.
  static Vocabulary of_characters(std::string_view text);

  std::size_t size() const { return symbols_.size(); }  ///< the number of tokens
  /// Throws InvalidArgument for a character that is not in the vocabulary.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The tokens must be in [0, size()).
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  Vocabulary(std::vector<std::string> symbols, bool has_bytes);

  std::vector<std::string> symbols_;
  bool has_bytes_;  // and not UTF-8 characters
  std::map<std::string, std::int32_t, std::less<>> token_of_;
};

/// A text as tokens.
struct Text {
  /// What a token stands for.
  enum class Symbols { kBytes, kCharacters };
  /// Throws InvalidArgument if the text is not UTF-8 and its symbols are characters.
  Text(std::string_view content, Symbols symbols);

  Vocabulary vocabulary;             ///< of the text
  std::vector<std::int32_t> tokens;  ///< of the whole text
};

/// Returns the text in a file, which may be in gzip format. Throws InvalidArgument, one line with
/// the file name, if it cannot be read or, for characters, if it is not UTF-8.
Text read_text(const std::filesystem::path& file, Text::Symbols symbols);

/// The options of TextDataset.
struct TextDatasetOptions {
  std::size_t window = 64;  ///< tokens of a sample
  /// Tokens between the beginnings of two samples; 0: as many as in a window, so that every token
  /// is predicted once per epoch. A smaller stride gives more samples, which overlap.
  std::size_t stride = 0;
  double test_share = 0.1;  ///< of the text, at its end; in (0, 1)
};

/// The windows of a text. The input of sample i is the tokens [i * stride, i * stride + window) of
/// the part, int32 [window]; the target is the next token of each of them, int32 [window]. The
/// training part comes first in the text. Immutable after construction.
class TextDataset : public Dataset {
 public:
  /// Throws InvalidArgument for options out of range, or if the part is shorter than a window and
  /// one token.
  TextDataset(std::shared_ptr<const Text> text, Split split,
              const TextDatasetOptions& options = {});

  std::size_t size() const override { return (tokens_.size() - window_ - 1) / stride_ + 1; }
  SampleForm input() const override { return {{window_}, DataType::kInt32}; }
  SampleForm target() const override { return input(); }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override;
  /// The whole text, of both parts.
  const Text& text() const { return *text_; }

 private:
  std::shared_ptr<const Text> text_;
  std::span<const std::int32_t> tokens_;  // of the part
  std::size_t window_, stride_;
};

}  // namespace horo::ops
