#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "horo/horo.h"

namespace horo::ops {

/// A file in the safetensors format, in memory: the length of the header (8 bytes), the header in
/// JSON, and the values of the tensors, row-major and without gaps. All numbers are little-endian.
/// Source: https://github.com/huggingface/safetensors. Not thread-safe.
class Safetensors {
 public:
  struct Tensor {
    std::string name;
    DataType type = DataType::kFloat32;
    Shape shape;
  };
  /// Keys and texts, stored in this order. Other programs ignore keys that they do not know.
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  Safetensors() = default;
  /// Takes over the bytes of a file. Throws InvalidArgument, with the reason, if they are not a
  /// complete file of this format, or if a tensor has a type that horo does not have.
  explicit Safetensors(std::vector<std::byte> file);

  /// Replaces the contents by these tensors with undefined values. Uses the former memory again if
  /// it is large enough. Throws InvalidArgument if two tensors have the same name.
  void reset(const Metadata& metadata, std::vector<Tensor> tensors);

  /// In the order of their values.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The values of tensor `index`, row-major.
  std::span<std::byte> values(std::size_t index);
  std::span<const std::byte> values(std::size_t index) const;
  /// The index of a tensor. Throws InvalidArgument if there is no tensor of this name.
  std::size_t index_of(std::string_view name) const;
  bool contains(std::string_view name) const;
  /// The text of a key. Empty if there is none.
  std::string_view metadata(std::string_view key) const;

  /// The whole file.
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void read_header(std::string_view header);

  std::vector<std::byte> bytes_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> begins_;  // of the values in bytes_, in order; and the end
};

}  // namespace horo::ops
