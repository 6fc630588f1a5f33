#include "tests/fakes/cuda/capture.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <utility>

#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* captures = new std::vector<std::shared_ptr<Capture>>;
  return *captures;
}

unsigned long long next_number() {
  static std::atomic<unsigned long long> next{1};
  return next++;
}

}  // namespace

Capture::Capture(CUstream_st& stream, cudaStreamCaptureMode capture_mode)
    : number(next_number()), mode(capture_mode), origin(stream) {}

std::size_t Capture::add(Work work, std::vector<std::size_t> after) {
  nodes.push_back({std::move(work), std::move(after)});
  return nodes.size() - 1;
}

void Capture::join(CUstream_st& stream, const std::vector<std::size_t>& ends) {
  std::set<std::size_t> all(stream.capture_ends.begin(), stream.capture_ends.end());
  all.insert(ends.begin(), ends.end());
  stream.capture_ends.assign(all.begin(), all.end());
}

bool Capture::is_joined() const {
  std::vector<bool> is_before(nodes.size());
  for (const std::size_t end : origin.capture_ends) is_before[end] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (is_before[i])
      for (const std::size_t earlier : nodes[i].after) is_before[earlier] = true;
  return std::ranges::all_of(is_before, [](bool is) { return is; });
}

void Capture::release() {
  for (CUstream_st* stream : streams) {
    stream->capture = nullptr;
    stream->capture_ends.clear();
  }
}

cudaStreamCaptureMode& thread_capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

std::shared_ptr<Capture> forbidding_capture() {
  const cudaStreamCaptureMode own = thread_capture_mode();
  if (own == cudaStreamCaptureModeRelaxed) return nullptr;
  for (const auto& capture : captures()) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool forbids =
        is_own ? capture->mode != cudaStreamCaptureModeRelaxed
               : own == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (forbids) return capture;
  }
  return nullptr;
}

void add_capture(const std::shared_ptr<Capture>& capture) { captures().push_back(capture); }

void remove_capture(const std::shared_ptr<Capture>& capture) { std::erase(captures(), capture); }

void require_no_capture(const char* call) {
  const std::scoped_lock lock(streams_mutex());
  if (const auto capture = forbidding_capture())
    violation(call, capture->origin.name,
              "the call is illegal while the stream is captured; use cudaStreamCaptureModeRelaxed");
}

cudaError_t invalidate(const char* call, Capture& capture, cudaError_t error) {
  std::fprintf(stderr, "fake CUDA: %s on %s returns an error and invalidates the capture\n", call,
               capture.origin.name.c_str());
  capture.is_invalid = true;
  return error;
}

cudaError_t check_no_capture(const char* call) {
  const std::scoped_lock lock(streams_mutex());
  const auto capture = forbidding_capture();
  return capture == nullptr ? cudaSuccess
                            : invalidate(call, *capture, cudaErrorStreamCaptureUnsupported);
}

}  // namespace horo::fakes

// The first node after a node continues its lane, and each other one begins a lane.
CUgraphExec_st::CUgraphExec_st(const CUgraph_st& graph) {
  std::set<std::size_t> continued;
  for (const auto& node : graph.nodes) {
    const auto before = std::ranges::find_if(
        node.after, [&](std::size_t earlier) { return !continued.contains(earlier); });
    if (before != node.after.end()) {
      continued.insert(*before);
      steps_.push_back({node, steps_[*before].lane});
    } else {
      steps_.push_back({node, horo::fakes::new_lane()});
    }
  }
}

void CUgraphExec_st::check(const std::string& place) const {
  for (const Step& step : steps_)
    for (const auto& range : step.node.work.ranges)
      horo::fakes::Memory::of_process().require_live({step.node.work.call + " of a graph", place},
                                                     range.data, range.bytes);
}

void CUgraphExec_st::run(const std::string& place, horo::fakes::Moment& moment) {
  const std::scoped_lock lock(mutex_);
  moment.clock.join(latest_);
  std::vector<horo::fakes::Clock> ends;
  for (const Step& step : steps_) {
    horo::fakes::Moment own{moment.clock, step.lane, ++ticks_};
    for (const std::size_t earlier : step.node.after) own.clock.join(ends[earlier]);
    own.clock.set(step.lane, own.tick);
    horo::fakes::execute(step.node.work, place + " (graph)", own);
    ends.push_back(own.clock);
  }
  for (const auto& end : ends) moment.clock.join(end);
  latest_ = moment.clock;
}
