#pragma once

#include <span>
#include <string>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/bucket_plan.h"
#include "horo/observe/plan_flight.h"

namespace horo::coordinator {

/// What the flight recorder is told of a plan of `gradients`; `process_set` empty: all ranks.
observe::PlanDescription describe_to_recorder(const std::string& name,
                                              const std::string& process_set,
                                              std::span<const NamedTensor> gradients,
                                              const BucketPlan& plan, ReduceOp op);

}  // namespace horo::coordinator
