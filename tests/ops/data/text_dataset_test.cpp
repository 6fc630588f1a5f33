#include "ops/data/datasets/text_dataset.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;

TEST(Vocabulary, OfCharactersIsSortedAndReversible) {
  const std::string text =
      "b\xc3\xa4"
      "a\xe2\x82\xac"
      "b\n";  // b, a umlaut, a, euro sign, b, line end
  const Vocabulary vocabulary = Vocabulary::of_characters(text);
  EXPECT_EQ(vocabulary.size(), 5u);
  const auto tokens = vocabulary.encode(text);
  EXPECT_THAT(tokens, ElementsAre(2, 3, 1, 4, 2, 0));
  EXPECT_EQ(vocabulary.decode(tokens), text);
  EXPECT_EQ(message_of([&] { (void)vocabulary.encode("ax"); }),
            "the character 'x' is not in the vocabulary of the text");
}

TEST(Vocabulary, OfBytesTakesAnyText) {
  const Vocabulary vocabulary = Vocabulary::of_bytes();
  const std::string text("\xff\x00\xc3z", 4);
  EXPECT_THAT(vocabulary.encode(text), ElementsAre(255, 0, 195, 122));
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
}

TEST(Vocabulary, RefusesCharactersThatAreNotUtf8) {
  for (const char* text : {"abc\xff", "abc\xc3", "abc\xe2\x82z", "abc\x80"})
    EXPECT_EQ(message_of([&] { (void)Vocabulary::of_characters(text); }),
              "the text is not UTF-8 at byte 3; use bytes as symbols");
}

std::vector<std::vector<std::int32_t>> sample(const TextDataset& dataset, std::size_t index) {
  const std::size_t count = dataset.input().shape.count();
  std::vector<std::vector<std::int32_t>> parts(2, std::vector<std::int32_t>(count));
  dataset.read(index, std::as_writable_bytes(std::span(parts[0])),
               std::as_writable_bytes(std::span(parts[1])));
  return parts;
}

TEST(TextDataset, CutsWindowsOfBothParts) {
  std::string content;
  for (char letter = 'a'; letter <= 't'; ++letter) content += letter;  // 20 tokens
  const auto text = std::make_shared<const Text>(content, Text::Symbols::kCharacters);
  const TextDatasetOptions options{.window = 4, .test_share = 0.3};
  const TextDataset train(text, Split::kTrain, options), test(text, Split::kTest, options);
  EXPECT_EQ(train.input(), (SampleForm{{4}, DataType::kInt32}));
  EXPECT_EQ(train.target(), train.input());
  ASSERT_EQ(train.size(), 3u);  // 14 tokens: three windows and the token after each
  EXPECT_THAT(sample(train, 0), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(1, 2, 3, 4)));
  EXPECT_THAT(sample(train, 2), ElementsAre(ElementsAre(8, 9, 10, 11), ElementsAre(9, 10, 11, 12)));
  ASSERT_EQ(test.size(), 1u);
  EXPECT_THAT(sample(test, 0),
              ElementsAre(ElementsAre(14, 15, 16, 17), ElementsAre(15, 16, 17, 18)));
  EXPECT_EQ(message_of([&] { (void)sample(train, 3); }), "sample 3 of a data set of 3");

  const TextDataset overlapping(text, Split::kTrain, {.window = 4, .stride = 3, .test_share = 0.3});
  ASSERT_EQ(overlapping.size(), 4u);
  EXPECT_THAT(sample(overlapping, 3)[1], ElementsAre(10, 11, 12, 13));
}

TEST(TextDataset, NamesWhatDoesNotFit) {
  const auto text = std::make_shared<const Text>("abcdefghij", Text::Symbols::kBytes);
  EXPECT_EQ(message_of([&] { TextDataset(text, Split::kTest, {.window = 3, .test_share = 0.3}); }),
            "text data set: the test part of the text has 3 tokens, but a window of 3 needs 4; use "
            "a longer text or a shorter window");
  EXPECT_EQ(message_of([&] { TextDataset(text, Split::kTrain, {.window = 0}); }),
            "text data set: window is 0; must be at least 1");
  EXPECT_EQ(message_of([&] { TextDataset(text, Split::kTrain, {.test_share = 1}); }),
            "text data set: test_share is 1; must be above 0 and below 1");
}

TEST(TextDataset, ReadsFilesAndNamesThem) {
  const auto file = std::filesystem::temp_directory_path() / "horo_text_dataset_test.txt";
  std::ofstream(file, std::ios::binary) << "ab\xff";
  EXPECT_EQ(read_text(file, Text::Symbols::kBytes).tokens.size(), 3u);
  EXPECT_EQ(message_of([&] { (void)read_text(file, Text::Symbols::kCharacters); }),
            file.string() + ": the text is not UTF-8 at byte 2; use bytes as symbols");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace horo::ops
