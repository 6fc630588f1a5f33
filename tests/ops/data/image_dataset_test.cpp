#include "ops/data/images/image_dataset.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "ops/data/data_loader.h"
#include "ops/data/records/pack_folder.h"
#include "tests/ops/data/idx_writer.h"
#include "tests/ops/data/image_writer.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A smooth image, which JPEG keeps nearly unchanged.
Image gradient_image(std::size_t height, std::size_t width, std::size_t channels, int seed = 0) {
  Image image{height, width, channels, {}};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(
            10 * static_cast<std::size_t>(seed) + 20 * (c + 1) * y / height + 60 * x / width));
  return image;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  write_plain(path, bytes);
}

std::string error_of(const std::string& file) {
  try {
    (void)decode_image(bytes_of(file), 3);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImageDecoder, PngIsExact) {
  for (const std::size_t channels : {1, 3}) {
    const Image image = gradient_image(13, 7, channels);
    const Image decoded = decode_image(bytes_of(png_bytes(image)), channels);
    EXPECT_EQ(decoded.height, 13u);
    EXPECT_EQ(decoded.width, 7u);
    EXPECT_EQ(decoded.pixels, image.pixels);
  }
}

TEST(ImageDecoder, JpegIsClose) {
  for (const std::size_t channels : {1, 3}) {
    const Image image = gradient_image(40, 64, channels);
    const Image decoded = decode_image(bytes_of(jpeg_bytes(image)), channels);
    ASSERT_EQ(decoded.pixels.size(), image.pixels.size());
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
      EXPECT_NEAR(decoded.pixels[i], image.pixels[i], 8) << i;
  }
}

TEST(ImageDecoder, ConvertsGreyToColours) {
  const Image grey = gradient_image(16, 16, 1);
  for (const std::string& file : {png_bytes(grey), jpeg_bytes(grey)}) {
    const Image decoded = decode_image(bytes_of(file), 3);
    ASSERT_EQ(decoded.pixels.size(), 3 * grey.pixels.size());
    for (std::size_t i = 0; i < decoded.pixels.size(); ++i)
      EXPECT_NEAR(decoded.pixels[i], grey.pixels[i / 3], 4);
  }
}

TEST(ImageDecoder, ReducesJpegWhileItIsDecoded) {
  const std::string file = jpeg_bytes(gradient_image(100, 160, 3));
  EXPECT_EQ(decode_image(bytes_of(file), 3, 26).width, 80u);
  EXPECT_EQ(decode_image(bytes_of(file), 3, 25).width, 40u);
  EXPECT_EQ(decode_image(bytes_of(file), 3, 1).width, 20u);
  EXPECT_EQ(decode_image(bytes_of(file), 3).width, 160u);
}

TEST(ImageDecoder, NamesWhatIsWrong) {
  const std::string png = png_bytes(gradient_image(20, 20, 3));
  const std::string jpeg = jpeg_bytes(gradient_image(64, 64, 3));
  EXPECT_THAT(error_of("GIF89a"), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(error_of(""), HasSubstr("neither a PNG nor a JPEG"));
  std::string flipped = png;
  flipped[png.size() / 2] ^= 0x10;
  EXPECT_THAT(error_of(flipped), HasSubstr("the PNG file is damaged"));
  for (std::size_t size = 8; size < png.size() - 12; size += 9)
    EXPECT_THAT(error_of(png.substr(0, size)), HasSubstr("the PNG file is damaged")) << size;
  for (std::size_t size = 3; size < jpeg.size() - 2; size += 31)
    EXPECT_THAT(error_of(jpeg.substr(0, size)), HasSubstr("the JPEG file is damaged")) << size;
}

TEST(ScaledToCover, KeepsTheCentreAndTheMean) {
  const Image image = gradient_image(60, 90, 3);
  const Image half = scaled_to_cover(image, 30, 30);
  EXPECT_EQ(half.height, 30u);
  EXPECT_EQ(half.width, 30u);
  // The image is linear in both directions, so the scaled one is, too. Its left edge is at 15.
  for (std::size_t y = 2; y < 28; ++y)
    for (std::size_t x = 2; x < 28; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        const double expected =
            20.0 * static_cast<double>(c + 1) * (2.0 * static_cast<double>(y) + 0.5) / 60 +
            60.0 * (15 + 2.0 * static_cast<double>(x) + 0.5) / 90;
        EXPECT_NEAR(half.pixels[(y * 30 + x) * 3 + c], expected, 2);
      }
  EXPECT_EQ(scaled_to_cover(image, 60, 90).pixels, image.pixels);
  const Image flat{5, 9, 1, std::vector<std::uint8_t>(45, 77)};
  for (const auto& [height, width] : {std::pair{1, 1}, {3, 2}, {17, 40}, {5, 2}})
    EXPECT_THAT(
        scaled_to_cover(flat, static_cast<std::size_t>(height), static_cast<std::size_t>(width))
            .pixels,
        testing::Each(77));
}

/// Eight images of two classes, PNG and JPEG, of 12 x 10 pixels.
void write_folder(const std::filesystem::path& folder) {
  for (int i = 0; i < 8; ++i) {
    const Image image = gradient_image(12, 10, 3, i);
    write_file(folder / (i % 2 == 0 ? "cat" : "dog") / fmt::format("{}.img", i),
               i % 4 < 2 ? png_bytes(image) : jpeg_bytes(image));
  }
}

TEST(ImageFolderDataset, ReadsImagesWithTheirClasses) {
  const TemporaryDirectory directory;
  write_folder(directory.path());
  const ImageFolderDataset dataset(directory.path());
  EXPECT_EQ(dataset.size(), 8u);
  EXPECT_EQ(dataset.sample_shape(), (Shape{3, 12, 10}));
  EXPECT_THAT(dataset.classes(), testing::ElementsAre("cat", "dog"));
  std::vector<std::uint8_t> pixels(3 * 12 * 10);
  std::vector<float> values(pixels.size());
  for (std::size_t index = 0; index < 8; ++index) {
    const int i = static_cast<int>(index < 4 ? 2 * index : 2 * (index - 4) + 1);
    EXPECT_EQ(dataset.copy_pixels(index, pixels), i % 2);
    const Image image = gradient_image(12, 10, 3, i);
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < 120; ++p)
        EXPECT_NEAR(pixels[c * 120 + p], image.pixels[p * 3 + c], i % 4 < 2 ? 0 : 12);
    EXPECT_EQ(dataset.copy_sample(index, values), i % 2);
    EXPECT_NEAR(values[125], (pixels[125] / 255.0 - 0.456) / 0.224, 1e-5);
  }
}

TEST(PackedDataset, HasTheSamplesOfTheFolder) {
  const TemporaryDirectory directory;
  write_folder(directory / "train");
  pack_folder(directory / "train", directory / "packed", 3000);
  const ImageOptions options{.channels = 1, .size = ImageSize{6, 6}};
  const auto folder = open_images(directory / "train", options);
  const auto packed = open_images(directory / "packed", options);
  ASSERT_EQ(packed->size(), folder->size());
  EXPECT_EQ(packed->classes(), folder->classes());
  std::vector<std::uint8_t> a(36), b(36);
  for (std::size_t i = 0; i < folder->size(); ++i) {
    EXPECT_EQ(folder->copy_pixels(i, a), packed->copy_pixels(i, b));
    EXPECT_EQ(a, b);
  }
}

TEST(ImageFolderDataset, NamesFilesThatAreWrong) {
  const TemporaryDirectory directory;
  write_folder(directory.path());
  write_file(directory / "cat/3 small.png", png_bytes(gradient_image(5, 5, 3)));
  write_file(directory / "cat/7.txt", "text");
  const ImageFolderDataset dataset(directory.path());
  std::vector<float> values(360);
  const auto error_at = [&](const ImageDataset& images, std::size_t index) -> std::string {
    try {
      (void)images.copy_sample(index, values);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_at(dataset, 2), AllOf(HasSubstr("cat/3 small.png: has 5 x 5 pixels"),
                                          HasSubstr("the first image 12 x 10")));
  EXPECT_THAT(error_at(dataset, 5), HasSubstr("cat/7.txt: is neither a PNG nor a JPEG"));
  const ImageFolderDataset scaled(directory.path(), {.size = ImageSize{12, 10}});
  EXPECT_EQ(error_at(scaled, 2), "no error");
  EXPECT_THAT(message_of([&] { ImageFolderDataset(directory.path(), {.channels = 2}); }),
              HasSubstr("1 or 3 channels"));

  const GlobalSampler sampler({.dataset_size = 10, .global_batch = 10, .is_shuffled = false}, 0, 1);
  ::testing::internal::CaptureStderr();
  DataLoader loader(dataset, sampler, 0, 1, {.bad_samples = BadSamples::kSkip});
  EXPECT_EQ(loader.next()->counted_rows(), 8u);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("3 small.png: has 5 x 5"), HasSubstr("cat/7.txt: is neither")));
}

}  // namespace
}  // namespace horo::ops
