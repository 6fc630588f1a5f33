#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/request.h"
#include "horo/observe/open_table.h"

namespace horo::coordinator {

class DeviceOperation;

/// One operation that this rank has submitted: what the ranks must agree on, and what it works on
/// here.
struct Entry {
  Request request;
  TensorView input;                 ///< allreduce and broadcast: also the output
  TensorView output;                ///< allgather, reduce_scatter and alltoall
  std::vector<TensorView> members;  ///< of a group, in the order of request.members
  /// Copied to `input`, of the same size and apart from it, once the entry cannot be refused any
  /// more; no memory: nothing is.
  ConstTensorView initial;
  /// Alltoall: where to say how many rows came from each rank, before completion.
  std::shared_ptr<std::vector<std::size_t>> received_splits;
  /// Join: where to say which rank was the last, before completion.
  std::shared_ptr<int> last_to_join;
  /// kTask: runs on every rank, in the same order among all collectives, on the coordinator thread
  /// or that of a caller who waits.
  std::function<void(collectives::Collectives&)> task;
  /// Of tensors on a device: what becomes of it there once the ranks have agreed.
  std::shared_ptr<DeviceOperation> on_device;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;  ///< the flight recorder's row of it
};

}  // namespace horo::coordinator
