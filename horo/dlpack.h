#pragma once

// For programs that exchange tensors with other libraries through DLPack. Requires DLPack's
// header; Debian's package is libdlpack-dev.
#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/tensor_view.h"

namespace horo {
namespace detail {

inline constexpr std::uint8_t kDlpackBool = 6;  // kDLBool of DLPack 0.8 and later

struct DlpackType {
  DataType type;
  std::uint8_t code;
  std::uint8_t bits;
};
inline constexpr DlpackType kDlpackTypes[] = {
    {DataType::kFloat32, kDLFloat, 32}, {DataType::kFloat64, kDLFloat, 64},
    {DataType::kFloat16, kDLFloat, 16}, {DataType::kBFloat16, kDLBfloat, 16},
    {DataType::kInt8, kDLInt, 8},       {DataType::kUInt8, kDLUInt, 8},
    {DataType::kInt16, kDLInt, 16},     {DataType::kUInt16, kDLUInt, 16},
    {DataType::kInt32, kDLInt, 32},     {DataType::kInt64, kDLInt, 64},
    {DataType::kBool, kDlpackBool, 8}};

inline DataType type_of(const DLDataType& given) {
  for (const DlpackType& known : kDlpackTypes)
    if (known.code == given.code && known.bits == given.bits && given.lanes == 1) return known.type;
  throw InvalidArgument("a DLPack tensor has the type (code " + std::to_string(given.code) +
                        ", bits " + std::to_string(given.bits) + ", lanes " +
                        std::to_string(given.lanes) +
                        "); horo supports bool, integers of 8 to 64 bits and float types");
}

/// Whether the elements are in row-major order without gaps.
inline bool is_contiguous(const DLTensor& tensor) {
  const std::int64_t *const first = tensor.shape, *const end = first + tensor.ndim;
  if (tensor.strides == nullptr || std::find(first, end, 0) != end) return true;
  std::int64_t expected = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

}  // namespace detail

/// A view of a DLPack tensor, which must stay alive until the operation on the view has completed.
/// `device` is what open_gpu() returns if the tensor is in the memory of a GPU; it has no effect
/// for a tensor in host memory. Not collective. Thread-safe. Throws InvalidArgument if the tensor
/// is not contiguous in row-major order, or if horo does not support its type or its memory.
inline TensorView from_dlpack(const DLTensor& tensor, device::Device* device = nullptr) {
  const DataType type = detail::type_of(tensor.dtype);
  std::vector<std::size_t> dimensions;
  for (int axis = 0; axis < tensor.ndim; ++axis)
    dimensions.push_back(static_cast<std::size_t>(tensor.shape[axis]));
  Shape shape(std::move(dimensions));
  HORO_CHECK(detail::is_contiguous(tensor), "a DLPack tensor of shape " + shape.to_string() +
                                                " is not contiguous in row-major order; copy it");
  std::byte* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  switch (tensor.device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return {static_cast<void*>(data), type, std::move(shape)};
    case kDLCUDA:
      HORO_CHECK(device != nullptr,
                 "a DLPack tensor is in the memory of a GPU; pass the device of horo::open_gpu()");
      return {static_cast<void*>(data), type, std::move(shape), *device};
    default:
      throw InvalidArgument("a DLPack tensor is in the memory of device type " +
                            std::to_string(static_cast<int>(tensor.device.device_type)) +
                            "; horo supports host memory (kDLCPU, kDLCUDAHost) and GPUs (kDLCUDA)");
  }
}

/// A DLPack tensor of the memory of `view`, for another library, which calls its deleter. Until
/// then, the tensor keeps `owner` alive; null if the memory is static or lives longer. `gpu` is the
/// number of the GPU (its CUDA ordinal) if the view is in device memory. Not collective.
/// Thread-safe.
inline DLManagedTensor* to_dlpack(const TensorView& view, std::shared_ptr<const void> owner,
                                  int gpu = 0) {
  struct Exported {
    DLManagedTensor tensor;
    std::vector<std::int64_t> shape;
    std::shared_ptr<const void> owner;
  };
  auto exported = std::make_unique<Exported>();
  for (const std::size_t dimension : view.shape().dimensions())
    exported->shape.push_back(static_cast<std::int64_t>(dimension));
  exported->owner = std::move(owner);
  DLManagedTensor& tensor = exported->tensor;
  tensor = {};
  tensor.dl_tensor.data = view.data();
  tensor.dl_tensor.device.device_type = view.device() == nullptr ? kDLCPU : kDLCUDA;
  tensor.dl_tensor.device.device_id = view.device() == nullptr ? 0 : gpu;
  tensor.dl_tensor.ndim = static_cast<int>(exported->shape.size());
  tensor.dl_tensor.shape = exported->shape.data();
  for (const detail::DlpackType& known : detail::kDlpackTypes)
    if (known.type == view.type()) tensor.dl_tensor.dtype = {known.code, known.bits, 1};
  tensor.manager_ctx = exported.get();
  tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  return &exported.release()->tensor;
}

}  // namespace horo
