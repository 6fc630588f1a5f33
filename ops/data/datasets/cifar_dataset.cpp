#include "ops/data/datasets/cifar_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "horo/base/error.h"
#include "ops/data/dataset.h"
#include "ops/data/file_bytes.h"

namespace horo::ops {

namespace {

// Mean and standard deviation of each channel of the training images, as fractions of 255.
constexpr std::array<PixelScale, CifarDataset::kChannels> kScales{
    {{.mean = 0.4914f, .deviation = 0.2470f},
     {.mean = 0.4822f, .deviation = 0.2435f},
     {.mean = 0.4465f, .deviation = 0.2616f}}};

/// Finds the batch files. The key is the name without ".gz". The map sorts the files by name, which
/// fixes the order of the samples on all ranks, and keeps one file if both forms exist.
std::map<std::string, std::filesystem::path> find_batches(const std::filesystem::path& directory,
                                                          const std::string& prefix) {
  HORO_CHECK(std::filesystem::is_directory(directory),
             fmt::format("{}: is not a directory; name the one with the CIFAR-10 files",
                         directory.string()));
  std::map<std::string, std::filesystem::path> batches;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto& file = entry.path();
    const bool is_compressed = file.extension() == ".gz";
    const auto name = is_compressed ? file.stem() : file.filename();
    if (!name.string().starts_with(prefix) || name.extension() != ".bin") continue;
    if (!is_compressed || !batches.contains(name.string())) batches[name.string()] = file;
  }
  HORO_CHECK(!batches.empty(),
             fmt::format("{}: has no {}*.bin, nor one with .gz added; put the files of CIFAR-10's "
                         "binary version into that directory",
                         directory.string(), prefix));
  return batches;
}

}  // namespace

CifarDataset::CifarDataset(const std::filesystem::path& directory, Split split) {
  for (const auto& [name, file] :
       find_batches(directory, split == Split::kTrain ? "data_batch" : "test_batch"))
    append(file);
}

void CifarDataset::append(const std::filesystem::path& file) {
  const auto bytes = read_file_bytes(file);
  HORO_CHECK(!bytes.empty() && bytes.size() % kRecord == 0,
             fmt::format("{}: has {} bytes, not a number of records of {}; fetch it again",
                         file.string(), bytes.size(), kRecord));
  for (std::size_t record = 0; record < bytes.size() / kRecord; ++record) {
    const int label = bytes[record * kRecord];
    HORO_CHECK(label < 10,
               fmt::format("{}: label {} of sample {} is not in 0 to 9; fetch CIFAR-10's binary "
                           "version again",
                           file.string(), label, record));
  }
  records_.insert(records_.end(), bytes.begin(), bytes.end());
}

std::vector<PixelScale> CifarDataset::pixel_scales() const {
  return {kScales.begin(), kScales.end()};
}

std::int32_t CifarDataset::copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const {
  check_copy(index, pixels.size());
  const std::span record(records_.data() + index * kRecord, kRecord);
  std::ranges::copy(record.subspan(1), pixels.begin());
  return record[0];
}

}  // namespace horo::ops
