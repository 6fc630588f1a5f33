#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "horo/device/cuda/cuda_check.h"
#include "horo/device/graph.h"

namespace horo::device {

/// Captures the work of a GPU's streams into graphs. Thread-safe.
class GpuGraphs {
 public:
  /// See Device::capture(). The GPU must be the current device of the calling thread.
  std::unique_ptr<Graph> capture(cudaStream_t stream, const std::function<void()>& work);
  /// See Stream::captured_in().
  std::shared_ptr<Capture> of(cudaStream_t stream) const;

 private:
  class GpuCapture;
  mutable std::mutex mutex_;
  // The captures in progress, by CUDA's number of the capture.
  std::unordered_map<unsigned long long, std::shared_ptr<GpuCapture>> open_;  // guarded by mutex_
};

}  // namespace horo::device
