#pragma once

namespace horo::device {

/// Begins what a profiler of the GPU (Nsight Systems, Nsight Compute) that was told to wait for it
/// records, and ends it. Of the whole process. Do nothing without CUDA or a profiler.
void start_profiler() noexcept;
void stop_profiler() noexcept;

}  // namespace horo::device
