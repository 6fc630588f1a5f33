#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "collectives/collectives.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// One operation that this rank has submitted: what the ranks must agree on, and what it works on
/// here.
struct Entry {
  Request request;
  TensorView input;   ///< allreduce and broadcast: also the output
  TensorView output;  ///< allgather and reduce_scatter
  /// kTask: runs on the coordinator thread of every rank, in the same order among all collectives.
  std::function<void(collectives::Collectives&)> task;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
};

}  // namespace horo::coordinator
