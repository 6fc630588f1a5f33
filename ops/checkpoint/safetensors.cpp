#include "ops/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace horo::ops {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 64;                // of the first value
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr const char* kMetadataKey = "__metadata__";

constexpr std::array<std::pair<DataType, std::string_view>, kDataTypeCount> kTypeNames{
    {{DataType::kFloat32, "F32"},
     {DataType::kFloat64, "F64"},
     {DataType::kFloat16, "F16"},
     {DataType::kBFloat16, "BF16"},
     {DataType::kInt8, "I8"},
     {DataType::kUInt8, "U8"},
     {DataType::kInt16, "I16"},
     {DataType::kUInt16, "U16"},
     {DataType::kInt32, "I32"},
     {DataType::kInt64, "I64"},
     {DataType::kBool, "BOOL"}}};

std::string_view code_of(DataType type) {
  return std::ranges::find(kTypeNames, type, &decltype(kTypeNames)::value_type::first)->second;
}

DataType type_of(const std::string& tensor, std::string_view code) {
  const auto found = std::ranges::find(kTypeNames, code, &decltype(kTypeNames)::value_type::second);
  HORO_CHECK(found != kTypeNames.end(),
             fmt::format("tensor '{}' has the type {}, which horo does not have", tensor, code));
  return found->first;
}

std::size_t bytes_of(const Safetensors::Tensor& tensor) {
  const std::size_t count = tensor.shape.count();
  HORO_CHECK(count < std::size_t{1} << 56,
             fmt::format("tensor '{}' is too large: {}", tensor.name, tensor.shape.to_string()));
  return count * size_of(tensor.type);
}

}  // namespace

Safetensors::Safetensors(std::vector<std::byte> file) : bytes_(std::move(file)) {
  HORO_CHECK(bytes_.size() >= kLengthBytes,
             fmt::format("not a safetensors file: it has {} bytes", bytes_.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  HORO_CHECK(length <= kMaxHeaderBytes,
             fmt::format("not a safetensors file: its header would have {} bytes", length));
  HORO_CHECK(length <= bytes_.size() - kLengthBytes,
             fmt::format("truncated: the header has {} bytes, and {} follow its length", length,
                         bytes_.size() - kLengthBytes));
  read_header({reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, length});
  HORO_CHECK(begins_.back() == bytes_.size(),
             fmt::format("{}: {} bytes in place of {}",
                         bytes_.size() < begins_.back() ? "truncated" : "too long", bytes_.size(),
                         begins_.back()));
}

// The order of the entries in JSON has no meaning. The values are in the order of their offsets.
void Safetensors::read_header(std::string_view header) {
  struct Entry {
    Tensor tensor;
    std::size_t begin, end;
  };
  std::vector<Entry> entries;
  try {
    const Json json = Json::parse(header);
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadataKey) {
        for (const auto& [key, text] : value.items())
          metadata_.emplace_back(key, text.get<std::string>());
        continue;
      }
      const auto& offsets = value.at("data_offsets");
      entries.push_back({{name, type_of(name, value.at("dtype").get<std::string>()),
                          Shape(value.at("shape").get<std::vector<std::size_t>>())},
                         offsets.at(0).get<std::size_t>(),
                         offsets.at(1).get<std::size_t>()});
    }
  } catch (const Json::exception& error) {
    throw InvalidArgument(
        fmt::format("not a safetensors file: its header is not valid ({})", error.what()));
  }
  std::ranges::stable_sort(entries, {},
                           [](const Entry& one) { return std::pair(one.begin, one.end); });
  const std::size_t first = kLengthBytes + header.size();
  begins_ = {first};
  for (Entry& entry : entries) {
    const std::size_t begin = begins_.back() - first;
    HORO_CHECK(entry.begin == begin && entry.end == begin + bytes_of(entry.tensor),
               fmt::format("damaged: tensor '{}' is at {} to {}, and should be at {} to {}",
                           entry.tensor.name, entry.begin, entry.end, begin,
                           begin + bytes_of(entry.tensor)));
    begins_.push_back(first + entry.end);
    tensors_.push_back(std::move(entry.tensor));
  }
}

// Blanks after the header align the values. Readers skip them.
void Safetensors::reset(const Metadata& metadata, std::vector<Tensor> tensors) {
  metadata_ = metadata;
  tensors_ = std::move(tensors);
  Json json = Json::object();
  for (const auto& [key, text] : metadata_) json[kMetadataKey][key] = text;
  std::set<std::string_view> names{kMetadataKey};
  std::size_t end = 0;
  begins_.clear();
  for (const Tensor& tensor : tensors_) {
    HORO_CHECK(names.insert(tensor.name).second,
               fmt::format("two tensors of a file have the name '{}'", tensor.name));
    begins_.push_back(end);
    end += bytes_of(tensor);
    json[tensor.name] = {{"dtype", code_of(tensor.type)},
                         {"shape", tensor.shape.dimensions()},
                         {"data_offsets", {begins_.back(), end}}};
  }
  begins_.push_back(end);
  std::string header = json.dump();
  header.resize(
      (kLengthBytes + header.size() + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes,
      ' ');
  const std::uint64_t length = header.size();
  for (std::size_t& begin : begins_) begin += kLengthBytes + length;
  bytes_.resize(begins_.back());
  std::memcpy(bytes_.data(), &length, kLengthBytes);
  std::memcpy(bytes_.data() + kLengthBytes, header.data(), header.size());
}

std::span<std::byte> Safetensors::values(std::size_t index) {
  return bytes().subspan(begins_.at(index), begins_.at(index + 1) - begins_.at(index));
}

std::span<const std::byte> Safetensors::values(std::size_t index) const {
  return bytes().subspan(begins_.at(index), begins_.at(index + 1) - begins_.at(index));
}

std::size_t Safetensors::index_of(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  HORO_CHECK(found != tensors_.end(), fmt::format("there is no tensor '{}'", name));
  return static_cast<std::size_t>(found - tensors_.begin());
}

bool Safetensors::contains(std::string_view name) const {
  return std::ranges::find(tensors_, name, &Tensor::name) != tensors_.end();
}

std::string_view Safetensors::metadata(std::string_view key) const {
  const auto found = std::ranges::find(metadata_, key, &Metadata::value_type::first);
  return found == metadata_.end() ? std::string_view() : found->second;
}

}  // namespace horo::ops
