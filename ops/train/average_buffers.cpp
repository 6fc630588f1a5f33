#include "ops/train/average_buffers.h"

#include <vector>

namespace horo::ops {

void average_buffers(Context& context, Layer& model) {
  std::vector<NamedTensor> buffers;
  for (Parameter* buffer : model.buffers())
    buffers.push_back({"train.buffer." + buffer->name, buffer->value.view()});
  if (!buffers.empty()) context.allreduce_group(buffers, {.name = "train.buffers"});
}

}  // namespace horo::ops
