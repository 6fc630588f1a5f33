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
  /// Initial values. The queue copies them to `input` when it accepts the entry. Has the size of
  /// `input` and does not overlap it. If it has no memory, nothing is copied.
  ConstTensorView initial;
  /// Alltoall: set before completion to the number of rows that each rank sent to this one.
  std::shared_ptr<std::vector<std::size_t>> received_splits;
  /// Join: set before completion to the last rank that joined.
  std::shared_ptr<int> last_to_join;
  /// kTask: a function that every rank runs at the same position in the sequence of collectives.
  /// The owner of the coordinator's rounds calls it.
  std::function<void(collectives::Collectives&)> task;
  /// Tensors on a device: the operation of the device queue. Null for host memory.
  std::shared_ptr<DeviceOperation> on_device;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;  ///< the record of the entry in the flight recorder
};

}  // namespace horo::coordinator
