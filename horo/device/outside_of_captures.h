#pragma once

#include "horo/device/cuda/cuda_check.h"

namespace horo::device {

/// While this object exists, the calling thread may make calls that CUDA forbids during a capture
/// and that would invalidate the capture, such as allocating and freeing memory. These calls do not
/// become part of the graph.
class OutsideOfCaptures {
 public:
  OutsideOfCaptures() noexcept { exchange(); }
  ~OutsideOfCaptures() { exchange(); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  void exchange() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace horo::device
