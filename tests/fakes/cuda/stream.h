#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/clock.h"
#include "tests/fakes/cuda/memory.h"

namespace horo::fakes {

class Capture;

/// One recording of an event: a point of a stream.
struct Point {
  bool is_done = false;
  Clock clock;  // of the point, if it is done
  std::chrono::steady_clock::time_point time;
};

/// An operation of a stream. A graph runs its operations many times.
struct Work {
  std::string call;
  std::vector<Range> ranges;  // that `run` accesses, as far as the call tells
  /// Runs on the thread of the stream. May add to the clock of the moment.
  std::function<void(const Actor&, Moment&)> run;
};

/// Runs an operation at a moment: checks its ranges, and records its accesses.
void execute(const Work& work, const std::string& place, Moment& moment);

/// What the host knows: the operations that a thread of the host has waited for, or that a host
/// function comes after. The threads of the host share this clock, because the fake does not see
/// how they synchronise. Thread-safe.
Clock host_clock();
void host_learns(const Clock& clock);

/// The mutex and condition of all streams and points.
std::mutex& streams_mutex();
std::condition_variable& streams_changed();

/// Returns the object of a handle. It is a violation if the object does not exist.
CUstream_st& checked(const char* call, cudaStream_t stream);
CUevent_st& checked(const char* call, cudaEvent_t event);

/// Submits work to a stream, or adds it to the capture of the stream. Checks that the memory of the
/// ranges is live.
void submit(const char* call, cudaStream_t stream, Work work);

/// It is a violation if an operation that has not started uses the block at `data`, which the
/// caller frees.
void require_unused(const char* call, const void* data);

}  // namespace horo::fakes

/// A stream: a queue, and a thread that runs its operations.
struct CUstream_st {
  void start(std::shared_ptr<CUstream_st> self);

  const std::size_t lane = horo::fakes::new_lane();
  const std::string name = "stream " + std::to_string(lane);

  // streams_mutex() guards all members below.
  // The operations that are not complete, with the clock of the host at their submission.
  std::deque<std::pair<horo::fakes::Work, horo::fakes::Clock>> queue;
  bool is_destroyed = false;
  horo::fakes::Clock clock;
  std::uint64_t tick = 0;
  std::shared_ptr<horo::fakes::Capture> capture;
  std::vector<std::size_t> capture_ends;  // the nodes that the next node comes after

 private:
  void serve();
};

struct CUevent_st {
  bool has_time = true;
  // streams_mutex() guards the members below.
  std::shared_ptr<horo::fakes::Point> point;      // null before the first recording
  std::shared_ptr<horo::fakes::Capture> capture;  // if the latest recording is in a capture
  std::vector<std::size_t> capture_ends;
};
