#include "ops/optim/optimizer.h"

#include "horo/base/error.h"

namespace horo::ops {

void Optimizer::step(const StepGradients& gradients) {
  if (device::Stream* const stream = backend_->device_stream())
    return update_on_device(*stream, gradients);
  HORO_CHECK(gradients.locations.empty() && gradients.factor == nullptr &&
                 gradients.skip == nullptr && gradients.learning_rate == nullptr,
             "an optimizer on the CPU uses the gradients of its parameters");
  update_on_host();
}

void Optimizer::move_to(Backend& backend) {
  if (backend_ == &backend) return;
  if (backend_->device_stream() != nullptr) leave_device();
  for (const State& state : states())
    for (Tensor& values : state.tensors) values = backend.from_host(backend_->to_host(values));
  backend_ = &backend;
  if (backend_->device_stream() != nullptr) enter_device();
}

void Optimizer::reset_to(Backend& backend) {
  for (const State& state : states())
    for (Tensor& values : state.tensors) values = Tensor::zeros(values.shape());
  for (std::int64_t& counter : counters()) counter = 0;
  backend_ = &backend;
}

}  // namespace horo::ops
