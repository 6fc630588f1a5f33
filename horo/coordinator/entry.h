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

/// One operation that this rank has submitted: the request that the ranks must agree on, and the
/// memory of this rank.
struct Entry {
  Request request;
  TensorView input;                 ///< allreduce and broadcast: also the output
  TensorView output;                ///< allgather, reduce_scatter and alltoall
  std::vector<TensorView> members;  ///< of a group, in the order of request.members
  /// Initial values. Copied to `input` once the entry is accepted. Has the size of `input` and does
  /// not overlap it. Without memory, nothing is copied.
  ConstTensorView initial;
  /// Alltoall: receives the number of rows from each rank, before completion.
  std::shared_ptr<std::vector<std::size_t>> received_splits;
  /// Join: receives the last rank that joined, before completion.
  std::shared_ptr<int> last_to_join;
  /// kTask: runs on every rank, in the same order among all collectives, on the coordinator thread
  /// or on the thread of a waiting caller.
  std::function<void(collectives::Collectives&)> task;
  /// Tensors on a device: the work on the device after the ranks have agreed.
  std::shared_ptr<DeviceOperation> on_device;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;  ///< the record of the entry in the flight recorder
};

}  // namespace horo::coordinator
