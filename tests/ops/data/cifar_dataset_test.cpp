#include "ops/data/datasets/cifar_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/data/idx_writer.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPlane = 32 * 32;

/// The value of a pixel of a test image. It differs by channel, position and label.
std::uint8_t pixel_of(int label, std::size_t channel, std::size_t place) {
  return static_cast<std::uint8_t>(17 * label + 101 * static_cast<int>(channel) +
                                   static_cast<int>(place * 7 % 251));
}

std::string record_of(int label) {
  std::string bytes(1, static_cast<char>(label));
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t place = 0; place < kPlane; ++place)
      bytes.push_back(static_cast<char>(pixel_of(label, channel, place)));
  return bytes;
}

std::vector<std::int32_t> labels_of(const CifarDataset& dataset) {
  std::vector<std::int32_t> labels;
  std::vector<float> values(CifarDataset::kPixels);
  for (std::size_t i = 0; i < dataset.size(); ++i) labels.push_back(dataset.copy_sample(i, values));
  return labels;
}

class CifarFiles : public testing::Test {
 protected:
  std::string loading_fails(Split split = Split::kTrain) {
    return message_of([&] { CifarDataset(directory_.path(), split); });
  }
  TemporaryDirectory directory_;
};

TEST_F(CifarFiles, NormalisesEveryChannelByItself) {
  write_plain(directory_ / "data_batch_1.bin", record_of(3) + record_of(9));
  const CifarDataset dataset(directory_.path(), Split::kTrain);
  EXPECT_EQ(dataset.size(), 2u);
  EXPECT_EQ(dataset.class_count(), 10u);
  EXPECT_EQ(dataset.sample_shape(), (Shape{3, 32, 32}));
  std::vector<float> values(3 * kPlane);
  EXPECT_EQ(dataset.copy_sample(1, values), 9);
  const float means[] = {0.4914f, 0.4822f, 0.4465f};
  const float deviations[] = {0.2470f, 0.2435f, 0.2616f};
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (const std::size_t place : {std::size_t{0}, std::size_t{33}, kPlane - 1})
      EXPECT_NEAR(values[channel * kPlane + place],
                  (static_cast<float>(pixel_of(9, channel, place)) / 255 - means[channel]) /
                      deviations[channel],
                  1e-5f);
}

TEST_F(CifarFiles, ReadsAllBatchesOfASplitInOrder) {
  write_gzip(directory_ / "data_batch_2_part.bin.gz", record_of(5) + record_of(6));
  write_plain(directory_ / "data_batch_3.bin", record_of(7));
  write_plain(directory_ / "data_batch_1.bin", record_of(4));
  write_gzip(directory_ / "data_batch_1.bin.gz", record_of(0));  // the .bin file is used
  write_gzip(directory_ / "test_batch.bin.gz", record_of(1));
  write_plain(directory_ / "data_batch_1.txt", "not a batch");
  write_plain(directory_ / "batches.meta.txt", "airplane\n");
  EXPECT_EQ(labels_of(CifarDataset(directory_.path(), Split::kTrain)),
            (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(labels_of(CifarDataset(directory_.path(), Split::kTest)),
            (std::vector<std::int32_t>{1}));
}

TEST_F(CifarFiles, NamesWhatIsMissingAndTheRemedy) {
  write_plain(directory_ / "test_batch.bin", record_of(1));
  EXPECT_THAT(loading_fails(),
              AllOf(HasSubstr(directory_.path().string() + ": has no data_batch*.bin"),
                    HasSubstr("put the files"), Not(HasSubstr("\n"))));
  EXPECT_THAT(message_of([&] { CifarDataset(directory_ / "absent", Split::kTrain); }),
              HasSubstr("absent: is not a directory"));
}

TEST_F(CifarFiles, RefusesTruncatedEmptyAndMislabelledFiles) {
  const std::string name = "data_batch_1.bin";
  write_plain(directory_ / name, record_of(1) + record_of(2).substr(1));
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr(name), HasSubstr("has 6145 bytes"),
                                     HasSubstr("records of 3073"), Not(HasSubstr("\n"))));
  write_plain(directory_ / name, "");
  EXPECT_THAT(loading_fails(), HasSubstr("has 0 bytes"));
  write_plain(directory_ / name, record_of(1) + record_of(10));
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr(name), HasSubstr("label 10 of sample 1")));
}

TEST_F(CifarFiles, ChecksTheArgumentsOfACopy) {
  write_plain(directory_ / "data_batch_1.bin", record_of(3));
  const CifarDataset dataset(directory_.path(), Split::kTrain);
  std::vector<float> values(3 * kPlane);
  EXPECT_THAT(message_of([&] { dataset.copy_sample(1, values); }), HasSubstr("sample 1"));
  values.pop_back();
  EXPECT_THAT(message_of([&] { dataset.copy_sample(0, values); }), HasSubstr("3071 values"));
}

}  // namespace
}  // namespace horo::ops
