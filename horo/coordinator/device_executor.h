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

/// Enqueues the collectives of responses on the streams of a device. The first response may wait
/// until the ranks have connected. Later responses do not wait for other ranks. Used by one thread
/// at a time.
class DeviceExecutor {
 public:
  /// The resources of an executor. The sizes must be equal on all ranks. `device` must outlive the
  /// executor. Only the collectives of the host stand-in use `communicator`.
  struct Parts {
    device::Device& device;
    Topology topology;  ///< the ranks that take part
    /// The size of a fused buffer. Larger tensors are reduced in parts.
    std::size_t buffer_bytes;
    std::size_t chunk_bytes;
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;  ///< null without a stand-in
    std::unique_ptr<collectives::DeviceCollectives> collectives;
    /// If null, the first allreduce creates the pipeline.
    std::unique_ptr<collectives::ChunkPipeline> pipeline;
  };
  /// What the caller needs once the device has completed the response.
  struct LaunchResult {
    /// Replaces an output of the wrong size, so that this rank can take part in the collective.
    device::Memory substitute;
    std::string error_text;  ///< the error of an output of the wrong size; otherwise empty
  };

  explicit DeviceExecutor(Parts parts);
  /// Waits until the enqueued work has ended. Failed or aborted work ends soon.
  ~DeviceExecutor();

  /// Enqueues the work of one response. The tensors of `entries` must be in the memory of the
  /// device. The work starts after the events `ready`, records `begun` at its start, and records
  /// `done` at its end. The collectives of all responses run one after another. Collective: all
  /// ranks must call execute() with the same responses in the same order. Throws DeviceError if the
  /// device rejects the work, and CommunicationError if the collectives reject the work. After an
  /// exception, the caller must not call execute() again.
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
  // The end of the latest response, and whether it used the pipeline. Collectives must run in the
  // same order on all ranks. Therefore a response on stream_ waits for an earlier response in the
  // pipeline, and vice versa. The event belongs to the caller of execute(), which must keep the
  // event until this object is destroyed.
  const device::Event* latest_ = nullptr;
  bool is_latest_of_pipeline_ = false;
};

/// Divides the tensors, which must have the same type, into lists. In the layout of FusedLayout,
/// each list fits into `buffer_bytes`. Large tensors are split into parts. The sizes of the parts
/// depend only on the sizes of the tensors and on `buffer_bytes`.
std::vector<std::vector<TensorView>> cut_to_fit(std::span<const TensorView> tensors,
                                                std::size_t buffer_bytes);

}  // namespace horo::coordinator
