#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/device/device.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Gives agreed responses on tensors of a device to the device: execute() for them. Nothing here
/// waits for the device or, after the first response, for other ranks. Used by one thread at a
/// time.
class DeviceExecutor {
 public:
  /// What the ranks have agreed on. `device` outlives the executor; `waits` holds how its
  /// collectives wait, if they are the stand-in's, whose communicator that is.
  struct Parts {
    device::Device& device;
    Topology topology;         ///< of the ranks that take part
    std::size_t buffer_bytes;  ///< of a fused buffer; tensors beyond it travel in parts
    std::size_t chunk_bytes;
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;  ///< null: no stand-in
    std::unique_ptr<collectives::DeviceCollectives> collectives;
    std::unique_ptr<collectives::ChunkPipeline> pipeline;  ///< null: made when it is needed
  };
  /// What is left to do once the device has done it.
  struct Given {
    /// In place of an output that does not fit: the others need this rank to take part.
    device::Memory substitute;
    std::string mistake;  ///< empty, or what is wrong with the output
  };

  explicit DeviceExecutor(Parts parts);
  /// Waits for the device to be done with what it was given; for what failed or was aborted, not
  /// long.
  ~DeviceExecutor();

  /// Gives it one response, on entries that lie in its memory: it begins, with `begun`, when the
  /// events `ready` are done, and ends with `done`, after all given before. Collective: the same
  /// responses in the same order on all ranks. Throws DeviceError if the device refuses work,
  /// CommunicationError if the collectives do; then give everything up.
  Given execute(const Response& response, const std::vector<Entry>& entries,
                std::vector<const device::Event*> ready, device::Event& begun, device::Event& done);

  device::Device& device() const { return parts_.device; }
  const PlanWaits& waits() const { return *parts_.waits; }
  collectives::DeviceCollectives& collectives() const { return *parts_.collectives; }

 private:
  void allreduce(const Response& response, const std::vector<Entry>& entries,
                 const std::vector<const device::Event*>& ready, device::Event& begun,
                 device::Event& done);
  Given on_stream(const Response& response, const std::vector<Entry>& entries);
  Given allgather(const Response& response, const Entry& entry);
  Given alltoall(const Response& response, const Entry& entry);

  Parts parts_;
  std::unique_ptr<device::Stream> stream_;  // of what does not go through the pipeline
  // The end of the latest response, and whether it went through the pipeline: its streams and
  // stream_ take turns, since all ranks' collectives come in one order.
  const device::Event* latest_ = nullptr;
  bool is_latest_of_pipeline_ = false;
};

/// The tensors, all of one type, in lists that fit into `buffer_bytes` each as FusedLayout lays
/// them out, large ones in several parts. Follows from their sizes alone.
std::vector<std::vector<TensorView>> cut_to_fit(std::span<const TensorView> tensors,
                                                std::size_t buffer_bytes);

}  // namespace horo::coordinator
