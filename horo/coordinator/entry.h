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

/// One operation that this rank has submitted. Contains the request, on which the ranks must agree,
/// and the tensors of this rank.
struct Entry {
  Request request;
  TensorView input;   ///< also the output of an allreduce or broadcast
  TensorView output;  ///< only for allgather, reduce_scatter and alltoall
  /// The tensors of a group, in the order of request.members.
  std::vector<TensorView> members;
  /// The initial values of `input`. TensorQueue copies them to `input` when it accepts the entry.
  /// If `initial` has memory, it must have the size of `input` and must not overlap `input`. If
  /// `initial` has no memory, nothing is copied.
  ConstTensorView initial;
  /// Only for alltoall: the number of rows that each rank sent to this rank. Set before completion.
  std::shared_ptr<std::vector<std::size_t>> received_splits;
  /// Only for join: the last rank that joined. Set before completion.
  std::shared_ptr<int> last_to_join;
  /// Only for kTask: the function. Every rank runs the function at the same position in the
  /// sequence of collectives. The owner of the coordinator's rounds calls the function.
  std::function<void(collectives::Collectives&)> task;
  /// The operation of the device queue if the tensors are on a device. Null for host memory.
  std::shared_ptr<DeviceOperation> on_device;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;  ///< the record of the entry in the flight recorder
};

}  // namespace horo::coordinator
