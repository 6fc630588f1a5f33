#include "ops/train/step/sync_batch_norm.h"

#include <string>

#include "ops/nn/layers/batch_norm.h"

namespace horo::ops {

void synchronise_batch_norm(Layer& model, Context& context) {
  for (Layer* child : model.children()) synchronise_batch_norm(*child, context);
  auto* const norm = dynamic_cast<BatchNorm*>(&model);
  if (norm == nullptr) return;
  norm->set_sum_over_ranks([norm, &context](const std::string& name, Tensor& values) {
    device::Stream* const stream = norm->backend().device_stream();
    void* const native = stream == nullptr ? nullptr : stream->native();
    const AllreduceOptions options{
        .name = "train.sum." + name, .op = ReduceOp::kSum, .stream = native};
    if (stream == nullptr) return context.allreduce(values.view(), options);
    context.allreduce_async(values.view(), options).wait_on(native);
  });
}

}  // namespace horo::ops
