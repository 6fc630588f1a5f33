#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_layouts.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/device/device.h"

namespace horo::coordinator {

/// Enqueues the collectives of responses on streams of a device. Waits for other ranks only while
/// NCCL connects to them for the first time; see DeviceCollectives. Used by one thread at a time.
class DeviceExecutor {
 public:
  /// The resources of an executor. The sizes must be equal on all ranks. `device` must outlive the
  /// executor.
  struct Parts {
    device::Device& device;
    Topology topology;  ///< the ranks that take part
    /// The size of a fused buffer of `pipeline` in bytes, and the size of a chunk. See
    /// DeviceLayouts.
    std::size_t buffer_bytes, chunk_bytes;
    /// The communicator that `collectives` uses. Null if `collectives` uses none.
    std::unique_ptr<collectives::Communicator> communicator;
    std::unique_ptr<collectives::DeviceCollectives> collectives;
    /// If null, the first allreduce that needs a pipeline creates it.
    std::unique_ptr<collectives::ChunkPipeline> pipeline;
  };
  /// The result of execute().
  struct LaunchResult {
    /// The memory that replaces an output of the wrong size, so that this rank can take part in the
    /// collective. The caller must not free it before the device has completed the response.
    device::Memory substitute;
    std::string error_text;  ///< the error of an output of the wrong size; otherwise empty
  };

  explicit DeviceExecutor(Parts parts);
  /// Waits until the device has ended the enqueued work.
  ~DeviceExecutor();

  /// Enqueues the work of one response. The tensors of `entries` must be in the memory of the
  /// device. The work starts after the events `ready`, records `begun` at its start, and records
  /// `done` at its end. The caller must keep `done` until the executor is destroyed. The device
  /// runs the collectives of all responses one after another. Collective: all ranks must call
  /// execute() with the same responses in the same order. Throws DeviceError or CommunicationError
  /// if the device or the collectives reject the work. After an exception, the caller must not call
  /// execute() again.
  LaunchResult execute(const Response& response, const std::vector<Entry>& entries,
                       std::vector<const device::Event*> ready, device::Event& begun,
                       device::Event& done);

  collectives::DeviceCollectives& collectives() const { return *parts_.collectives; }

 private:
  void copy_initial_values(const std::vector<Entry>& entries,
                           std::vector<const device::Event*>& ready);
  void allreduce(const Response& response, const std::vector<Entry>& entries,
                 const std::vector<const device::Event*>& ready, device::Event& begun,
                 device::Event& done);
  LaunchResult on_stream(const Response& response, const std::vector<Entry>& entries);
  LaunchResult allgather(const Response& response, const Entry& entry);
  LaunchResult alltoall(const Response& response, const Entry& entry);

  Parts parts_;
  DeviceLayouts layouts_;
  std::unique_ptr<device::Stream> stream_;  // for responses that do not use the pipeline
  std::unique_ptr<device::Event> copied_;   // after copy_initial_values()
  // The event `done` of the latest response, and whether that response used the pipeline. A
  // response that uses stream_ waits for an earlier response that uses the pipeline, and vice
  // versa.
  const device::Event* latest_ = nullptr;
  bool is_latest_of_pipeline_ = false;
};

}  // namespace horo::coordinator
