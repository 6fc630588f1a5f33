#include "ops/train/device_step.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <utility>

#include "horo/base/log.h"
#include "ops/backend/device/float_types.h"

namespace horo::ops {
namespace {

using device_kernels::BatchScore;
using device_kernels::RowScore;
using device_kernels::StepState;

const ExchangeOptions& checked(const ExchangeOptions& options) {
  HORO_CHECK(options.op == ReduceOp::kAverage,
             "training on a device: gradients are averaged; Adasum is for host memory");
  HORO_CHECK(options.compression.kind == Compression::Kind::kNone,
             "training on a device: compression is for host memory; on a device gradients can "
             "be sent as bfloat16");
  HORO_CHECK(options.passes == 1,
             fmt::format("training on a device: a step has one pass, not {}; choose a smaller "
                         "batch, or bfloat16, to save memory",
                         options.passes));
  HORO_CHECK(
      !options.clip_norm || (std::isfinite(*options.clip_norm) && *options.clip_norm > 0),
      fmt::format("training on a device: clip_norm is {}, it must be above 0", *options.clip_norm));
  return options;
}

// Waits until the stream is idle, and returns `value`. A later constructor may throw, which frees
// memory that work in flight would still use.
template <typename T>
T& settled(T& value, device::Stream& stream) {
  stream.synchronize();
  return value;
}

template <typename T>
T* memory_as(const device::Memory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

// The options that decide how parameters are updated. They must be equal on all ranks.
std::vector<std::string> agreed(const Optimizer& optimizer, const ExchangeOptions& options) {
  return {optimizer.describe(),
          options.clip_norm ? fmt::format("clip_norm = {}", *options.clip_norm) : "no clip_norm",
          fmt::format("check_finite = {}", options.check_finite)};
}

std::vector<ReducedGradient> reduced_by(const GradientSync& sync, std::size_t count) {
  std::vector<ReducedGradient> reduced;
  for (std::size_t i = 0; i < count; ++i) reduced.push_back(sync.reduced(i));
  return reduced;
}

// Without the last one, the loss.
std::vector<GradientLocation> locations_of(const std::vector<ReducedGradient>& reduced) {
  std::vector<GradientLocation> locations;
  for (std::size_t i = 0; i + 1 < reduced.size(); ++i)
    locations.push_back({reduced[i].data, reduced[i].type, static_cast<float>(reduced[i].scale)});
  return locations;
}

}  // namespace

TrainedOnBackend::TrainedOnBackend(Layer& model, Optimizer& optimizer, Backend& backend)
    : model_(model), optimizer_(optimizer) {
  model.move_to(backend);
  optimizer.move_to(backend);
}

void TrainedOnBackend::move_back() {
  model_.move_to(cpu_backend());
  optimizer_.move_to(cpu_backend());
}

TrainedOnBackend::~TrainedOnBackend() {
  try {
    move_back();
  } catch (const std::exception& error) {
    log_warning("the parameters of a model are lost with its device: {}", error.what());
    model_.reset_to(cpu_backend());
    optimizer_.reset_to(cpu_backend());
  }
}

DeviceStep::DeviceStep(Context& context, Layer& model, Optimizer& optimizer,
                       const DeviceTraining& training, const ExchangeOptions& options)
    : options_(checked(options)),
      backend_(*training.device, training.type),
      on_device_(model, optimizer, backend_),
      gradients_(*training.device, stream(), model.parameters()),
      sync_(settled(context, stream()), gradients_.tensors(),
            {.name = "train.gradients",
             .wire = training.wire,
             .metrics = {DeviceGradients::kLossName},
             .leave_as_reduced = true,
             .also_agreed = agreed(optimizer, options)}),
      reduced_(reduced_by(sync_, gradients_.tensors().size())),
      locations_(locations_of(reduced_)),
      state_(training.device->allocate(sizeof(StepState))),
      measured_(settled(*training.device, stream()), stream(), model.parameters(), reduced_),
      score_(settled(*training.device, stream()).allocate(sizeof(BatchScore))) {
  const std::vector<Parameter*> parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) index_of_[parameters[i]] = i;
}

void DeviceStep::finish() noexcept {
  try {
    stream().synchronize();
  } catch (const std::exception& error) {
    log_warning("a device failed in training: {}", error.what());
  }
}

const BatchScore* DeviceStep::batch_score() const { return memory_as<BatchScore>(score_); }

void DeviceStep::set_step(std::uint64_t step) {
  device_kernels::set_step(stream(), memory_as<StepState>(state_),
                           {step, on_device_.optimizer().learning_rate()});
}

Tensor DeviceStep::forward(DeviceBatch& batch, const Pass& pass) {
  Pass on_device = pass;
  on_device.device_step = &memory_as<StepState>(state_)->step;
  return model().forward(backend_.in_own_order(std::move(batch.inputs), backend_.type()),
                         on_device);
}

void DeviceStep::backward(const Tensor& logits, const DeviceBatch& batch, double normaliser) {
  Tensor gradient = backend_.allocate(logits.shape(), logits.type());
  compare(logits, batch, normaliser, &gradient, gradients_.loss());
  void* const native = stream().native();
  // The loss has the index after the last parameter. It is complete before the first gradient.
  sync_.ready(index_of_.size(), native);
  model().backward(std::move(gradient), [&](const Parameter& parameter) {
    sync_.ready(index_of_.at(&parameter), native);
  });
}

void DeviceStep::exchange() { sync_.wait_on(stream().native()); }

// The verdict stays on the device: the optimizer kernels read the clipping factor and the skip flag
// there. The step therefore never waits for the host.
void DeviceStep::update() {
  StepGradients gradients{.locations = locations_,
                          .learning_rate = &memory_as<StepState>(state_)->learning_rate};
  if (options_.clip_norm || options_.check_finite) {
    measure();
    gradients.factor = &verdict()->factor;
    if (options_.check_finite) gradients.skip = &verdict()->skip;
  }
  on_device_.optimizer().step(gradients);
}

void DeviceStep::score(const Tensor& logits, const DeviceBatch& batch) {
  compare(logits, batch, static_cast<double>(batch.rows), nullptr, nullptr);
}

// The row scores are freed as soon as the work is submitted: the allocator reuses their memory in
// stream order.
void DeviceStep::compare(const Tensor& logits, const DeviceBatch& batch, double normaliser,
                         Tensor* gradient, float* loss) {
  HORO_CHECK(logits.shape().rank() == 2 && logits.shape()[0] == batch.rows,
             fmt::format("the model's output has shape {}; expected [{}, classes]",
                         logits.shape().to_string(), batch.rows));
  const device_kernels::CrossEntropy shape{
      .rows = batch.rows, .classes = logits.shape()[1], .normaliser = normaliser, .loss = loss};
  const device::Memory rows =
      backend_.allocator().allocate(batch.rows * sizeof(RowScore), stream());
  device_kernels::visit_float_type(logits.type(), "logits", [&]<typename T>(T) {
    device_kernels::softmax_cross_entropy(stream(), logits.data<T>(), batch.labels, shape,
                                          gradient == nullptr ? nullptr : gradient->data<T>(),
                                          memory_as<RowScore>(rows), memory_as<BatchScore>(score_));
  });
}

void DeviceStep::measure() {
  device_kernels::GradientMeasure how;
  if (options_.clip_norm) how.max_norm = static_cast<float>(*options_.clip_norm);
  if (options_.check_finite) how.also = static_cast<const float*>(loss().data);
  measured_.measure(stream(), how);
}

}  // namespace horo::ops
