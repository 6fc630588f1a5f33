#include "ops/backend/cuda/cudnn_backend.h"

namespace horo::ops::cuda {

BackendDescriptor::BackendDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  HORO_CUDNN(backend_create_descriptor, type, &descriptor);
  descriptor_.reset(descriptor);
}

void BackendDescriptor::Destroy::operator()(cudnnBackendDescriptor_t descriptor) const noexcept {
  cudnn().backend_destroy_descriptor(descriptor);
}

void BackendDescriptor::set(cudnnBackendAttributeName_t name, const BackendDescriptor& other) {
  const cudnnBackendDescriptor_t descriptor = other.get();
  set_values(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void BackendDescriptor::set_values(cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, std::size_t count,
                                   const void* values) {
  HORO_CUDNN(backend_set_attribute, get(), name, type, static_cast<std::int64_t>(count), values);
}

void BackendDescriptor::finalize() { HORO_CUDNN(backend_finalize, get()); }

// cuDNN reports an engine that cannot run a graph with one of a family of codes.
bool BackendDescriptor::try_finalize() {
  const cudnnStatus_t status = cudnn().backend_finalize(get());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check_cudnn(status, "backend_finalize");
  return true;
}

std::vector<BackendDescriptor> BackendDescriptor::descriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              std::size_t most) const {
  std::vector<BackendDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> native;
  for (std::size_t i = 0; i < most; ++i) {
    all.emplace_back(type);
    native.push_back(all.back().get());
  }
  std::int64_t count = 0;
  HORO_CUDNN(backend_get_attribute, get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(most), &count, native.data());
  all.erase(
      all.begin() + static_cast<std::ptrdiff_t>(std::min(most, static_cast<std::size_t>(count))),
      all.end());
  return all;
}

}  // namespace horo::ops::cuda
