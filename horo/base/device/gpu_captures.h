#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "horo/base/device/cuda_check.h"
#include "horo/base/device/graph.h"

namespace horo::device {

/// The captures of a GPU's streams. Thread-safe.
class GpuCaptures {
 public:
  /// Device::capture(), with the GPU as the calling thread's current one.
  std::unique_ptr<Graph> capture(cudaStream_t stream, const std::function<void()>& work);
  /// Stream::captured_in().
  std::shared_ptr<Capture> of(cudaStream_t stream) const;

 private:
  class GpuCapture;
  mutable std::mutex mutex_;
  // By CUDA's number of the capture.
  std::unordered_map<unsigned long long, std::shared_ptr<GpuCapture>> open_;  // guarded by mutex_
};

}  // namespace horo::device
