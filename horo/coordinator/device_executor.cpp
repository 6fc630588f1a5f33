#include "horo/coordinator/device_executor.h"

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/executor.h"
#include "horo/coordinator/negotiation/row_parts.h"

namespace horo::coordinator {

using collectives::ChunkPipeline;

DeviceExecutor::DeviceExecutor(Parts parts)
    : parts_(std::move(parts)),
      layouts_(parts_.buffer_bytes, parts_.chunk_bytes),
      stream_(parts_.device.make_stream(device::Priority::kHigh)),
      copied_(parts_.device.make_event()) {}

// The work on stream_ uses objects of parts_, so the work must end before the destruction of these
// objects. The destructor of the pipeline waits for the streams of the pipeline.
DeviceExecutor::~DeviceExecutor() {
  try {
    stream_->synchronize();
  } catch (const DeviceError&) {
    // DeviceOperationQueue has already reported this error or an earlier one.
  }
}

// The device must run the collectives in the same order on all ranks. Two streams could run their
// collectives in any order. Therefore a response that does not use the streams of the previous
// response waits for the event `done` of the previous response.
DeviceExecutor::LaunchResult DeviceExecutor::execute(const Response& response,
                                                     const std::vector<Entry>& entries,
                                                     std::vector<const device::Event*> ready,
                                                     device::Event& begun, device::Event& done) {
  // A single rank has nothing to reduce, but may have to scale the values.
  const bool is_for_pipeline =
      response.kind == Kind::kAllreduce &&
      (parts_.topology.size > 1 || !entries.front().request.scale.are_one());
  if (latest_ != nullptr && is_latest_of_pipeline_ != is_for_pipeline) ready.push_back(latest_);
  latest_ = &done;
  is_latest_of_pipeline_ = is_for_pipeline;
  copy_initial_values(entries, ready);
  if (is_for_pipeline) {
    allreduce(response, entries, ready, begun, done);
    return {};
  }
  for (const device::Event* event : ready) stream_->wait(*event);
  stream_->record(begun);
  LaunchResult result = on_stream(response, entries);
  stream_->record(done);
  return result;
}

// Copies the initial values on stream_, and replaces `ready` by the event after the copies.
void DeviceExecutor::copy_initial_values(const std::vector<Entry>& entries,
                                         std::vector<const device::Event*>& ready) {
  if (std::ranges::none_of(entries, [](const Entry& e) { return e.initial.data() != nullptr; }))
    return;
  for (const device::Event* event : ready) stream_->wait(*event);
  for (const Entry& entry : entries)
    if (entry.initial.data() != nullptr)
      stream_->copy(entry.input.data(), entry.initial.data(), entry.initial.bytes());
  stream_->record(*copied_);
  ready = {copied_.get()};
}

// Only the first call of the pipeline waits for `ready`, because the device runs the work of the
// calls in order. The last call records `done` last. All entries of a response have the same scale
// factors; see fuse().
void DeviceExecutor::allreduce(const Response& response, const std::vector<Entry>& entries,
                               const std::vector<const device::Event*>& ready, device::Event& begun,
                               device::Event& done) {
  if (parts_.pipeline == nullptr)
    parts_.pipeline = std::make_unique<ChunkPipeline>(
        parts_.device, *parts_.collectives, parts_.buffer_bytes, ChunkPipeline::Options{});
  const ScaleFactors& scale = entries.front().request.scale;
  const ChunkPipeline::ReduceSpec spec{response.op, scale.before, scale.after};
  bool is_first = true;
  for (const collectives::FusedLayout& layout : layouts_.of(tensors_of(entries))) {
    if (is_first)
      parts_.pipeline->allreduce(layout, spec, ready, done, &begun);
    else
      parts_.pipeline->allreduce(layout, spec, {}, done);
    is_first = false;
  }
}

DeviceExecutor::LaunchResult DeviceExecutor::on_stream(const Response& response,
                                                       const std::vector<Entry>& entries) {
  const Entry& entry = entries.front();
  switch (response.kind) {
    case Kind::kAllgather:
      return allgather(response, entry);
    case Kind::kAlltoall:
      return alltoall(response, entry);
    case Kind::kBroadcast:
      for (const TensorView& tensor : tensors_of(entries))
        parts_.collectives->broadcast(tensor.data(), tensor.bytes(), response.root, *stream_);
      return {};
    case Kind::kReduceScatter:
      parts_.collectives->reduce_scatter(
          entry.input.data(), response.type,
          scattered_counts(entry.input.shape(), static_cast<std::size_t>(parts_.topology.size)),
          entry.output.data(), response.op, *stream_);
      return {};
    default:  // an allreduce of a single rank without scale factors needs no work
      return {};
  }
}

// If the output has the wrong size, this rank takes part with a substitute, because the other ranks
// need the rows of this rank.
DeviceExecutor::LaunchResult DeviceExecutor::allgather(const Response& response,
                                                       const Entry& entry) {
  GatheredRows rows = gathered_rows(response, entry);
  LaunchResult result{{}, std::move(rows.error_text)};
  void* output = entry.output.data();
  if (!result.error_text.empty()) {
    result.substitute = parts_.device.allocate(std::max<std::size_t>(1, rows.bytes));
    output = result.substitute.data();
  }
  parts_.collectives->allgather(entry.input.data(), rows.bytes_of, output, *stream_);
  return result;
}

DeviceExecutor::LaunchResult DeviceExecutor::alltoall(const Response& response,
                                                      const Entry& entry) {
  ExchangedRows rows = exchanged_rows(response, entry, parts_.topology);
  *entry.received_splits = std::move(rows.received);
  LaunchResult result{{}, std::move(rows.error_text)};
  void* output = entry.output.data();
  if (!result.error_text.empty()) {
    result.substitute = parts_.device.allocate(std::max<std::size_t>(1, rows.bytes));
    output = result.substitute.data();
  }
  parts_.collectives->alltoall(entry.input.data(), rows.bytes_to, output, rows.bytes_from,
                               *stream_);
  return result;
}

}  // namespace horo::coordinator
