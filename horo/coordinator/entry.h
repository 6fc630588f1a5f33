#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/negotiation/request.h"
#include "horo/flight_recorder/open_table.h"

namespace horo::coordinator {

class DeviceOperation;

/// One operation that this rank submits. Contains the request, which the ranks compare, and the
/// tensors of this rank.
struct Entry {
  Request request;
  TensorView input;   ///< also the output of an allreduce or broadcast
  TensorView output;  ///< only for allgather, reduce_scatter and alltoall
  /// The tensors of a group, in the order of request.members. A group does not use `input`.
  std::vector<TensorView> members;
  /// The initial values of `input`. In host memory, TensorQueue copies them to `input` when it
  /// accepts the entry. In device memory, DeviceExecutor copies them before the operation. If
  /// `initial` has memory, it must have the size of `input` and must not overlap `input`. If
  /// `initial` has no memory, nothing is copied.
  ConstTensorView initial;
  /// Only for alltoall: receives the number of rows from each rank. In host memory, these numbers
  /// are set before the completion. On a device, they are set before the operation is enqueued on
  /// the device.
  std::shared_ptr<std::vector<std::size_t>> received_splits;
  /// Only for join: receives the rank that joined last. Set before the completion, unless the join
  /// fails.
  std::shared_ptr<int> last_to_join;
  /// Only for kTask: the function of this rank. Every rank calls its function at the same position
  /// in the sequence of collectives. The caller is the owner of the coordinator's rounds.
  std::function<void(collectives::Collectives&)> task;
  /// The operation of the DeviceOperationQueue. Null if the tensors are in host memory.
  std::shared_ptr<DeviceOperation> on_device;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;  ///< the record of the entry in the flight recorder
};

/// The shared state of a submitted entry. `on_device` is null if the tensors are in host memory.
struct Submitted {
  std::shared_ptr<Completion> completion;
  std::shared_ptr<DeviceOperation> on_device;
};

}  // namespace horo::coordinator
