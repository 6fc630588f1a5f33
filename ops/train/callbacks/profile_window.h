#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "horo/device/cuda/nvtx_range.h"
#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/train/step/step_timer.h"

namespace horo::ops {

/// Which steps are profiled, and how.
struct ProfileOptions {
  /// The steps from `first` to `last`, counted from 1 over all epochs. 0: none.
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< see `first`
  /// Where rank 0 writes the trace of all ranks. Empty: nowhere.
  std::filesystem::path trace{};
  /// The FIFO of `perf record --control fifo:PATH`, in which rank 0 enables and disables the
  /// recording. Empty: none.
  std::filesystem::path perf_control{};
};

/// Profiles a window of the steps of a run.
///
/// The trace has the phases of each step of each rank, as the host sees them, and evaluations, in
/// Chrome's Trace Event Format (JSON), for ui.perfetto.dev. The ranks of a host have one clock;
/// between hosts, times agree to within the duration of a barrier.
///
/// External profilers record the window alone: on a GPU, it is between cudaProfilerStart() and
/// cudaProfilerStop(), and each step is an NVTX range; on the CPU, `perf` is told by its control
/// FIFO. Outside of the window a step costs two comparisons. Used from one thread.
class ProfileWindow {
 public:
  /// The clock of the host.
  using Clock = std::chrono::steady_clock;

  /// Borrows `context` and `model`. Throws InvalidArgument if `first` is 0 and `last` is not, if
  /// `last` is below `first`, or for more than 100,000 steps.
  ProfileWindow(Context& context, Layer& model, const ProfileOptions& options);
  ~ProfileWindow();

  /// Before step number `step`, counted from 1. Collective at the first step of the window. Throws
  /// Error on all ranks if perf does not read the FIFO.
  void begin_step(std::uint64_t step);
  /// A phase of the step begins.
  void enter(StepPhase phase);
  /// An evaluation begins.
  void enter_evaluation();
  /// After step number `step`. Returns a text after the last step of the window. Collective there.
  /// Throws Error on all ranks if the trace cannot be written.
  std::optional<std::string> end_step(std::uint64_t step);
  /// Ends a window that training has not completed. Collective. Returns a text if there was one.
  std::optional<std::string> finish();

 private:
  struct Span {
    std::int64_t begin = 0, end = 0;  // nanoseconds of the clock of the host
    std::int64_t name = 0;            // index of a name; see the source
    std::int64_t step = 0;
  };

  void open(std::uint64_t step);
  void start_profilers();
  void stop_profilers() noexcept;
  device::Stream* gpu_stream() const;
  void begin_span(std::int64_t name);
  void end_span(std::int64_t time);
  std::string close();
  void write_trace();
  void require(const std::string& problem);

  Context& context_;
  Layer& model_;
  const ProfileOptions options_;
  bool is_open_ = false;
  int perf_ = -1;            // on rank 0
  std::int64_t opened_ = 0;  // when the barrier ended
  std::uint64_t first_step_ = 0, step_ = 0;
  std::int64_t step_begin_ = 0;
  Span current_{};
  std::vector<Span> spans_;
  std::optional<device::NvtxRange> range_;  // of the step
};

}  // namespace horo::ops
