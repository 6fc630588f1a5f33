#pragma once

#include <cudnn.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/backend/cuda/cudnn_library.h"

namespace horo::ops::cuda {

/// The attribute type of cuDNN for values of T.
template <typename T>
constexpr cudnnBackendAttributeType_t backend_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, std::int32_t>) return CUDNN_TYPE_INT32;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, void*> || std::is_same_v<T, const void*>)
    return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  return CUDNN_TYPE_NUMERICAL_NOTE;
}

/// A descriptor of cuDNN's graph API: set() its attributes, then finalize() it. Descriptors that it
/// refers to must outlive it.
class BackendDescriptor {
 public:
  explicit BackendDescriptor(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_values(name, backend_type<T>(), 1, &value);
  }
  template <typename T>
  void set_all(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_values(name, backend_type<T>(), values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const BackendDescriptor& other);

  /// Throws DeviceError if cuDNN does not accept the attributes.
  void finalize();
  /// Returns false if cuDNN does not support what the attributes describe.
  bool try_finalize();

  /// The values of an attribute; at most `most`.
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name, std::size_t most) const {
    std::vector<T> all(most);
    std::int64_t count = 0;
    HORO_CUDNN(backend_get_attribute, get(), name, backend_type<T>(),
               static_cast<std::int64_t>(most), &count, all.data());
    all.resize(std::min(most, static_cast<std::size_t>(count)));
    return all;
  }
  /// The values of an attribute that are descriptors of this type; at most `most`.
  std::vector<BackendDescriptor> descriptors(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type,
                                             std::size_t most) const;

 private:
  void set_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::size_t count, const void* values);
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroy> descriptor_;
};

}  // namespace horo::ops::cuda
