#include "horo/device/cuda/gpu_graphs.h"

#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/stream.h"

namespace horo::device {
namespace {

using Kept = std::vector<std::shared_ptr<const void>>;

class GpuGraph : public Graph {
 public:
  /// The caller keeps the ownership of `graph`.
  GpuGraph(cudaGraph_t graph, Kept kept) : kept_(std::move(kept)) {
    HORO_CUDA(cudaEventCreateWithFlags(&launched_, cudaEventDisableTiming));
    const cudaError_t result =
        cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    if (result != cudaSuccess) cudaEventDestroy(launched_);
    check_cuda(result, "cudaGraphInstantiate");
  }
  ~GpuGraph() override {
    cudaEventSynchronize(launched_);
    cudaGraphExecDestroy(executable_);
    cudaEventDestroy(launched_);
  }
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  void launch(Stream& stream) override {
    if (stream.captured_in() != nullptr)
      throw DeviceError("a graph cannot be launched by a stream that is being captured");
    const auto native = static_cast<cudaStream_t>(stream.native());
    HORO_CUDA(cudaGraphLaunch(executable_, native));
    HORO_CUDA(cudaEventRecord(launched_, native));
  }

 private:
  Kept kept_;
  cudaEvent_t launched_ = nullptr;  // end of the latest launch; launches do not overlap
  cudaGraphExec_t executable_ = nullptr;
};

struct GraphDestroyer {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<CUgraph_st, GraphDestroyer>;

// Returns null if the capture failed.
OwnedGraph end(cudaStream_t stream, cudaError_t& result) {
  cudaGraph_t graph = nullptr;
  result = cudaStreamEndCapture(stream, &graph);
  return OwnedGraph(graph);
}

unsigned long long number_of_capture(cudaStream_t stream, cudaStreamCaptureStatus& status) {
  unsigned long long number = 0;
  HORO_CUDA(cudaStreamGetCaptureInfo(stream, &status, &number));
  return number;
}

}  // namespace

class GpuGraphs::GpuCapture : public Capture {
 public:
  using Capture::take_kept;
};

std::unique_ptr<Graph> GpuGraphs::capture(cudaStream_t stream, const std::function<void()>& work) {
  // ThreadLocal: other threads of horo and of libraries may call CUDA during the capture.
  HORO_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const auto capture = std::make_shared<GpuCapture>();
  unsigned long long number = 0;
  cudaError_t result = cudaSuccess;
  const auto close = [&] {
    const std::scoped_lock lock(mutex_);
    open_.erase(number);
  };
  try {
    cudaStreamCaptureStatus status{};
    number = number_of_capture(stream, status);
    {
      const std::scoped_lock lock(mutex_);
      open_[number] = capture;
    }
    work();
  } catch (...) {
    close();
    end(stream, result);
    cudaGetLastError();
    throw;
  }
  close();
  const OwnedGraph graph = end(stream, result);
  check_cuda(result, "cudaStreamEndCapture: the captured work is not a graph");
  return std::make_unique<GpuGraph>(graph.get(), capture->take_kept());
}

std::shared_ptr<Capture> GpuGraphs::of(cudaStream_t stream) const {
  cudaStreamCaptureStatus status{};
  const unsigned long long number = number_of_capture(stream, status);
  if (status == cudaStreamCaptureStatusNone) return nullptr;
  if (status != cudaStreamCaptureStatusActive)
    throw InvalidArgument("the capture has become invalid");
  const std::scoped_lock lock(mutex_);
  const auto found = open_.find(number);
  if (found == open_.end())
    throw InvalidArgument("the stream is being captured, but not by Device::capture()");
  return found->second;
}

}  // namespace horo::device
