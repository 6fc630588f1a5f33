#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/device/device.h"

namespace horo::coordinator {

/// Enqueues agreed responses on the streams of a device. Does not wait for the device or, after the
/// first response, for other ranks. Used by one thread at a time.
class DeviceExecutor {
 public:
  /// The resources of an executor. The sizes must be equal on all ranks. `device` must outlive the
  /// executor. `waits` and `communicator` belong to the collectives of the host stand-in.
  struct Parts {
    device::Device& device;
    Topology topology;         ///< the ranks that take part
    std::size_t buffer_bytes;  ///< size of a fused buffer; larger tensors are sent in parts
    std::size_t chunk_bytes;
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;  ///< null: no stand-in
    std::unique_ptr<collectives::DeviceCollectives> collectives;
    std::unique_ptr<collectives::ChunkPipeline> pipeline;  ///< null: made by the first allreduce
  };
  /// What the caller needs once the device has completed the response.
  struct LaunchResult {
    /// Replaces an output of the wrong size, so that this rank can take part in the collective.
    device::Memory substitute;
    std::string error_text;  ///< why the output does not fit; empty if it does
  };

  explicit DeviceExecutor(Parts parts);
  /// Waits for the enqueued work. Failed or aborted work ends soon.
  ~DeviceExecutor();

  /// Enqueues one response on entries in the memory of the device. The work starts after the events
  /// `ready` and after all earlier responses. It records `begun` at its start and `done` at its
  /// end. Collective: all ranks call it with the same responses in the same order. Throws
  /// DeviceError if the device rejects the work, CommunicationError if the collectives do. The
  /// executor cannot be used after an exception.
  LaunchResult execute(const Response& response, const std::vector<Entry>& entries,
                       std::vector<const device::Event*> ready, device::Event& begun,
                       device::Event& done);

  device::Device& device() const { return parts_.device; }
  const PlanWaits& waits() const { return *parts_.waits; }
  collectives::DeviceCollectives& collectives() const { return *parts_.collectives; }

 private:
  void allreduce(const Response& response, const std::vector<Entry>& entries,
                 const std::vector<const device::Event*>& ready, device::Event& begun,
                 device::Event& done);
  LaunchResult on_stream(const Response& response, const std::vector<Entry>& entries);
  LaunchResult allgather(const Response& response, const Entry& entry);
  LaunchResult alltoall(const Response& response, const Entry& entry);

  Parts parts_;
  std::unique_ptr<device::Stream> stream_;  // for responses that do not use the pipeline
  // The end of the latest response, and whether it used the pipeline. Collectives must run in one
  // order on all ranks, so a response on stream_ waits for one in the pipeline, and vice versa. The
  // event belongs to the caller of execute(), which keeps it longer than this object.
  const device::Event* latest_ = nullptr;
  bool is_latest_of_pipeline_ = false;
};

/// Splits the tensors, all of one type, into lists that each fit into `buffer_bytes` in the layout
/// of FusedLayout. Large tensors are split into parts. Depends only on the sizes of the tensors.
std::vector<std::vector<TensorView>> cut_to_fit(std::span<const TensorView> tensors,
                                                std::size_t buffer_bytes);

}  // namespace horo::coordinator
