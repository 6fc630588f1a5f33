#include "ops/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/data/random_stream.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// A file with this header and `values` zero bytes.
std::vector<std::byte> file_with(const std::string& header, std::size_t values) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + header.size() + values);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  return file;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(std::vector<std::byte> file) {
  return error_of([&] { Safetensors read(std::move(file)); });
}

/// One tensor of each type, with other shapes: scalars, empty tensors and odd sizes.
Safetensors example() {
  std::vector<Safetensors::Tensor> tensors;
  for (int type = 0; type < kDataTypeCount; ++type)
    tensors.push_back({"tensor \"" + std::to_string(type) + "\" \xc3\xa4",
                       static_cast<DataType>(type),
                       type == 0 ? Shape{} : Shape{type % 4, 3, type + 1}});
  Safetensors file;
  file.reset({{"step", "12"}, {"text", "a \"quoted\" line\n"}}, std::move(tensors));
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    for (std::size_t k = 0; std::byte & value : file.values(i))
      value = static_cast<std::byte>(31 * i + 7 * ++k);
  return file;
}

TEST(Safetensors, EveryTypeAndShapeRoundTrips) {
  const Safetensors written = example();
  const Safetensors read(bytes_of(written.bytes()));
  EXPECT_EQ(read.metadata("step"), "12");
  EXPECT_EQ(read.metadata("text"), "a \"quoted\" line\n");
  EXPECT_EQ(read.metadata("other"), "");
  ASSERT_EQ(read.tensors().size(), written.tensors().size());
  for (std::size_t i = 0; i < read.tensors().size(); ++i) {
    EXPECT_EQ(read.tensors()[i].name, written.tensors()[i].name);
    EXPECT_EQ(read.tensors()[i].type, written.tensors()[i].type);
    EXPECT_EQ(read.tensors()[i].shape, written.tensors()[i].shape);
    EXPECT_EQ(bytes_of(read.values(i)), bytes_of(written.values(i)));
    EXPECT_EQ(read.index_of(written.tensors()[i].name), i);
  }
  EXPECT_THAT(error_of([&] { (void)read.index_of("x"); }), HasSubstr("no tensor 'x'"));
}

TEST(Safetensors, HasTheDocumentedLayout) {
  Safetensors file;
  file.reset({{"a", "b"}}, {{"x", DataType::kFloat32, {2, 3}}, {"y", DataType::kInt64, {1}}});
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes().data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data()) + 8;
  EXPECT_EQ(nlohmann::json::parse(text, text + length), nlohmann::json::parse(
                                                            R"({"__metadata__": {"a": "b"},
                    "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                    "y": {"dtype": "I64", "shape": [1], "data_offsets": [24, 32]}})"));
  EXPECT_EQ(file.values(1).data(), file.bytes().data() + 8 + length + 24);
  EXPECT_EQ(file.bytes().size(), 8 + length + 32);
}

TEST(Safetensors, ReadsFilesOfOtherPrograms) {
  const Safetensors file(file_with(
      R"({"b":{"data_offsets":[4,6],"shape":[1],"dtype":"BF16"},"a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}} )",
      6));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.values(1).size(), 2u);
  EXPECT_TRUE(Safetensors(file_with("{}", 0)).tensors().empty());
}

TEST(Safetensors, RefusesWhatIsNoFileOfTheFormat) {
  const auto header = [](const std::string& tensor) { return "{\"t\":{" + tensor + "}}"; };
  EXPECT_THAT(error_of(std::vector<std::byte>(3)), HasSubstr("it has 3 bytes"));
  EXPECT_THAT(error_of(std::vector<std::byte>(80, std::byte{0x41})),
              HasSubstr("not a safetensors"));
  EXPECT_THAT(error_of(file_with("no JSON", 0)), HasSubstr("header is not valid"));
  EXPECT_THAT(error_of(file_with("[1]", 0)), HasSubstr("header is not valid"));
  EXPECT_THAT(error_of(file_with("{\"__metadata__\":{\"a\":1}}", 0)),
              HasSubstr("header is not valid"));
  EXPECT_THAT(error_of(file_with(header(R"("shape":[1],"data_offsets":[0,4])"), 4)),
              HasSubstr("header is not valid"));
  EXPECT_THAT(
      error_of(file_with(header(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), 4)),
      HasSubstr("tensor 't' has the type F8_E4M3"));
  EXPECT_THAT(error_of(file_with(header(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4)),
              HasSubstr("tensor 't' is at 0 to 4, and should be at 0 to 8"));
  EXPECT_THAT(error_of(file_with(header(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8)),
              HasSubstr("tensor 't' is at 4 to 8, and should be at 0 to 4"));
  EXPECT_THAT(error_of(file_with(header(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5)),
              HasSubstr("too long"));
  EXPECT_THAT(
      error_of(file_with(
          header(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0)),
      HasSubstr("too large"));
}

TEST(Safetensors, RefusesEveryTruncation) {
  const Safetensors file = example();
  for (std::size_t size = 0; size < file.bytes().size(); ++size)
    EXPECT_NE(error_of(bytes_of(file.bytes().first(size))), "no error") << size;
}

TEST(Safetensors, FlippedBitsNeverCrash) {
  const Safetensors file = example();
  RandomStream random(5);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = bytes_of(file.bytes());
    for (int k = 0; k < 3; ++k)
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
    (void)error_of(std::move(bytes));
  }
}

TEST(Safetensors, RefusesTwoTensorsOfOneName) {
  Safetensors file;
  EXPECT_THAT(error_of([&] {
                file.reset({}, {{"t", DataType::kBool, {}}, {"t", DataType::kBool, {}}});
              }),
              HasSubstr("the name 't'"));
}

}  // namespace
}  // namespace horo::ops
