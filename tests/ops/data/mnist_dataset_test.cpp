#include "ops/data/datasets/mnist_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/data/idx_writer.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kImages = "train-images-idx3-ubyte";
const std::string kLabels = "train-labels-idx1-ubyte";

class MnistFiles : public testing::Test {
 protected:
  void SetUp() override {
    write_plain(directory_ / kImages, idx_bytes({2, 1, 3}, {0, 255, 51, 102, 153, 204}));
    write_plain(directory_ / kLabels, idx_bytes({2}, {9, 4}));
  }
  std::string loading_fails() {
    return message_of([this] { MnistDataset(directory_.path(), Split::kTrain); });
  }

  TemporaryDirectory directory_;
};

TEST_F(MnistFiles, NormalisesPixelsAndPairsThemWithLabels) {
  const MnistDataset dataset(directory_.path(), Split::kTrain);
  EXPECT_EQ(dataset.size(), 2u);
  EXPECT_EQ(dataset.class_count(), 10u);
  EXPECT_EQ(dataset.sample_shape(), (Shape{1, 1, 3}));
  std::vector<float> values(3);
  EXPECT_EQ(dataset.copy_sample(0, values), 9);
  EXPECT_NEAR(values[0], (0.0f - 0.1307f) / 0.3081f, 1e-6f);
  EXPECT_NEAR(values[1], (1.0f - 0.1307f) / 0.3081f, 1e-6f);
  EXPECT_NEAR(values[2], (0.2f - 0.1307f) / 0.3081f, 1e-6f);
  EXPECT_EQ(dataset.copy_sample(1, values), 4);
  EXPECT_NEAR(values[2], (0.8f - 0.1307f) / 0.3081f, 1e-6f);
}

TEST_F(MnistFiles, TakesCompressedFilesAndTheTestSplit) {
  write_gzip(directory_ / "t10k-images-idx3-ubyte.gz", idx_bytes({1, 1, 1}, {7}));
  write_gzip(directory_ / "t10k-labels-idx1-ubyte.gz", idx_bytes({1}, {3}));
  const MnistDataset dataset(directory_.path(), Split::kTest);
  std::vector<float> values(1);
  EXPECT_EQ(dataset.copy_sample(0, values), 3);
}

TEST_F(MnistFiles, ChecksTheArgumentsOfACopy) {
  const MnistDataset dataset(directory_.path(), Split::kTrain);
  std::vector<float> values(3);
  EXPECT_THAT(message_of([&] { dataset.copy_sample(2, values); }), HasSubstr("sample 2"));
  values.resize(4);
  EXPECT_THAT(message_of([&] { dataset.copy_sample(0, values); }), HasSubstr("4 values"));
}

TEST_F(MnistFiles, NamesAMissingFileAndTheRemedy) {
  std::filesystem::remove(directory_ / kLabels);
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr((directory_ / kLabels).string()),
                                     HasSubstr("put the four MNIST files"), Not(HasSubstr("\n"))));
  EXPECT_THAT(message_of([&] { MnistDataset(directory_ / "absent", Split::kTrain); }),
              HasSubstr("absent: is not a directory"));
}

TEST_F(MnistFiles, RefusesLabelsThatDoNotFitTheImages) {
  write_plain(directory_ / kLabels, idx_bytes({3}, {1, 2, 3}));
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr(kLabels), HasSubstr("3 labels for the 2 images")));
  write_plain(directory_ / kLabels, idx_bytes({2}, {1, 10}));
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr(kLabels), HasSubstr("label 10 of sample 1")));
}

TEST_F(MnistFiles, RefusesImagesInPlaceOfLabels) {
  std::filesystem::copy_file(directory_ / kImages, directory_ / kLabels,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(loading_fails(), AllOf(HasSubstr(kLabels), HasSubstr("magic number")));
}

TEST_F(MnistFiles, RefusesAnEmptySet) {
  write_plain(directory_ / kImages, idx_bytes({0, 1, 3}, {}));
  write_plain(directory_ / kLabels, idx_bytes({0}, {}));
  EXPECT_THAT(loading_fails(), HasSubstr("holds no images"));
}

}  // namespace
}  // namespace horo::ops
