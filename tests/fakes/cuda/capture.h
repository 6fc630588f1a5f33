#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/stream.h"

namespace horo::fakes {

/// An operation of a graph, after the operations `after`, which have smaller numbers.
struct Node {
  Work work;
  std::vector<std::size_t> after;
};

/// A capture in progress. streams_mutex() guards all members but the constants.
class Capture {
 public:
  Capture(CUstream_st& origin, cudaStreamCaptureMode mode);

  const unsigned long long number;
  const cudaStreamCaptureMode mode;
  const std::thread::id thread = std::this_thread::get_id();
  CUstream_st& origin;
  std::vector<CUstream_st*> streams;  // including the origin
  std::vector<Node> nodes;
  bool is_invalid = false;

  /// Returns the number of the new node.
  std::size_t add(Work work, std::vector<std::size_t> after);
  void join(CUstream_st& stream, const std::vector<std::size_t>& ends);
  /// Whether the origin comes after all nodes.
  bool is_joined() const;
  /// Makes all streams execute work again.
  void release();
};

/// The capture mode of the calling thread (cudaThreadExchangeStreamCaptureMode).
cudaStreamCaptureMode& thread_capture_mode();

/// Returns a capture that forbids potentially unsafe calls of the calling thread, or null. Requires
/// streams_mutex().
std::shared_ptr<Capture> forbidding_capture();
void add_capture(const std::shared_ptr<Capture>& capture);
void remove_capture(const std::shared_ptr<Capture>& capture);

/// A call that is illegal during a capture: it is a violation if a capture forbids the call. CUDA
/// would report an error and invalidate the capture, but callers that free memory ignore errors.
void require_no_capture(const char* call);
/// The same, for calls whose callers receive the error: invalidates the capture, writes one line,
/// and returns the error, or cudaSuccess if no capture forbids the call.
cudaError_t check_no_capture(const char* call);
/// Invalidates a capture and returns the error. Requires streams_mutex().
cudaError_t invalidate(const char* call, Capture& capture, cudaError_t error);

}  // namespace horo::fakes

/// A captured graph.
struct CUgraph_st {
  std::vector<horo::fakes::Node> nodes;
};

/// An executable graph. Its launches run one after the other.
struct CUgraphExec_st {
  explicit CUgraphExec_st(const CUgraph_st& graph);
  /// Runs all operations, in the order of the capture.
  void run(const std::string& place, horo::fakes::Moment& moment);
  /// Checks that the memory of all operations is live.
  void check(const std::string& place) const;

 private:
  struct Step {
    horo::fakes::Node node;
    std::size_t lane;
  };
  std::vector<Step> steps_;
  std::mutex mutex_;           // held during a launch; guards the members below
  std::uint64_t ticks_ = 0;    // of all lanes
  horo::fakes::Clock latest_;  // of the end of the latest launch
};
