#include "ops/kernels/cpu/blocked_argument.h"

namespace horo::ops::cpu {

using dnnl::memory;
using dnnl::reorder;

BlockedArgument::BlockedArgument(const Processor& processor, const memory::desc& outside,
                                 const memory::desc& inside)
    : is_direct_(outside == inside), outside_(outside, processor.engine, nullptr) {
  if (is_direct_) {
    inside_ = memory(inside, processor.engine, nullptr);
    return;
  }
  inside_ = memory(inside, processor.engine);
  const auto create = [&](const memory::desc& from, const memory::desc& to) {
    return reorder(reorder::primitive_desc(processor.engine, from, processor.engine, to));
  };
  reorder_in_ = create(outside, inside);
  reorder_out_ = create(inside, outside);
}

const memory& BlockedArgument::load(const Processor& processor, const float* outside) {
  auto* values = const_cast<float*>(outside);  // oneDNN has no read-only memory
  if (is_direct_) {
    inside_.set_data_handle(values);
    return inside_;
  }
  outside_.set_data_handle(values);
  reorder_in_.execute(processor.stream, outside_, inside_);
  return inside_;
}

const memory& BlockedArgument::target(float* outside) {
  (is_direct_ ? inside_ : outside_).set_data_handle(outside);
  return inside_;
}

void BlockedArgument::store(const Processor& processor) {
  if (!is_direct_) reorder_out_.execute(processor.stream, inside_, outside_);
}

}  // namespace horo::ops::cpu
