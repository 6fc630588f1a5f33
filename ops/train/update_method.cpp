#include "ops/train/update_method.h"

#include "ops/train/sharded_update.h"
#include "ops/train/train_step.h"

namespace horo::ops {
namespace {

// `what` averages gradients of float32 in host memory by operations of its own.
void check_plain_average(const ExchangeOptions& options, const DeviceTraining& training,
                         const std::string& what) {
  HORO_CHECK(training.device == nullptr, what + " is for host memory; train on the CPU");
  HORO_CHECK(options.op == ReduceOp::kAverage,
             what + " averages gradients; leave Adasum out, or " + what);
  HORO_CHECK(options.compression.kind == Compression::Kind::kNone && !options.wire,
             what + " sends float32; leave compression and the wire type out");
}

}  // namespace

bool has_update_method(const ExchangeOptions& options) { return options.shard_optimizer; }

void check_update_method(const ExchangeOptions& options, const DeviceTraining& training) {
  if (options.shard_optimizer) check_plain_average(options, training, "a sharded optimizer");
}

std::unique_ptr<UpdateMethod> make_update_method(Context& context, Optimizer& optimizer,
                                                 GradientSync& scalar_sync, StepScalars& scalars,
                                                 const ExchangeOptions& options) {
  if (options.shard_optimizer)
    return std::make_unique<ShardedUpdate>(
        context, optimizer, scalar_sync, scalars,
        ShardedUpdateOptions{.clip_norm = options.clip_norm, .check_finite = options.check_finite});
  return nullptr;
}

}  // namespace horo::ops
