#include "ops/train/update/update_method.h"

#include <fmt/format.h>

#include "ops/train/step/train_step.h"
#include "ops/train/update/local_update.h"
#include "ops/train/update/sharded_update.h"

namespace horo::ops {
namespace {

// `what` averages `averaged` in host memory by operations of its own.
void check_average(const ExchangeOptions& options, const DeviceTraining& training,
                   const std::string& what, const std::string& averaged) {
  HORO_CHECK(training.device == nullptr, what + " is for host memory; train on the CPU");
  HORO_CHECK(options.op == ReduceOp::kAverage,
             fmt::format("{0} averages {1}; leave Adasum out, or {0}", what, averaged));
}

}  // namespace

bool has_update_method(const ExchangeOptions& options) {
  return options.shard_optimizer || options.local_steps.count > 0;
}

void check_update_method(const ExchangeOptions& options, const DeviceTraining& training) {
  if (options.shard_optimizer) {
    check_average(options, training, "a sharded optimizer", "gradients");
    HORO_CHECK(options.compression.kind == Compression::Kind::kNone && !options.wire,
               "a sharded optimizer sends float32; leave compression and the wire type out");
    HORO_CHECK(options.local_steps.count == 0,
               "a sharded optimizer needs the gradients of all ranks in each step; leave local "
               "steps out");
  }
  if (options.local_steps.count > 0)
    check_average(options, training, "training with local steps", "changes of parameters");
}

std::unique_ptr<UpdateMethod> make_update_method(Context& context, Optimizer& optimizer,
                                                 GradientSync& scalar_sync, StepScalars& scalars,
                                                 const ExchangeOptions& options) {
  if (options.shard_optimizer)
    return std::make_unique<ShardedUpdate>(
        context, optimizer, scalar_sync, scalars,
        ShardedUpdateOptions{.clip_norm = options.clip_norm, .check_finite = options.check_finite});
  if (options.local_steps.count > 0)
    return std::make_unique<LocalUpdate>(
        context, optimizer, scalars,
        LocalUpdateOptions{.steps = options.local_steps,
                           .exchange = {options.compression, options.wire},
                           .clip_norm = options.clip_norm,
                           .check_finite = options.check_finite,
                           .last_step = options.last_step});
  return nullptr;
}

}  // namespace horo::ops
