#include "ops/train/device_step.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <utility>

#include "horo/base/log.h"
#include "ops/kernels/device/float_types.h"

namespace horo::ops {
namespace {

using device_kernels::BatchScore;
using device_kernels::GradientTensor;
using device_kernels::GradientVerdict;
using device_kernels::RowScore;

const ExchangeOptions& checked(const ExchangeOptions& options) {
  HORO_CHECK(options.op == ReduceOp::kAverage,
             "training on a device: gradients are averaged; Adasum is for host memory");
  HORO_CHECK(options.compression.kind == Compression::Kind::kNone,
             "training on a device: compression is for host memory; on a device gradients may "
             "travel as bfloat16");
  HORO_CHECK(options.passes == 1,
             fmt::format("training on a device: a step has one pass, not {}; choose a smaller "
                         "batch, or bfloat16, to save memory",
                         options.passes));
  HORO_CHECK(
      !options.clip_norm || (std::isfinite(*options.clip_norm) && *options.clip_norm > 0),
      fmt::format("training on a device: clip_norm is {}, it must be above 0", *options.clip_norm));
  return options;
}

// With nothing under way that uses what was made before: what follows may throw.
device::Device& settled(device::Device& device, device::Stream& stream) {
  stream.synchronize();
  return device;
}

template <typename T>
T* memory_as(const device::Memory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

std::vector<GradientTensor> gradients_of(const std::vector<DeviceParameter*>& parameters,
                                         DataType type) {
  std::vector<GradientTensor> gradients;
  for (const DeviceParameter* parameter : parameters)
    if (parameter->gradient.type() == type)
      gradients.push_back({parameter->gradient.data(), parameter->gradient.count()});
  return gradients;
}

}  // namespace

DeviceStep::DeviceStep(Context& context, const Layer& model, const SgdOptions& sgd,
                       const DeviceTraining& training, const ExchangeOptions& options)
    : options_(checked(options)),
      compute_(*training.device, training.type),
      network_(to_device(model, compute_)),
      gradients_(*training.device, stream(), network_->parameters()),
      sgd_(*training.device, stream(), network_->parameters(), sgd),
      sync_(context, settled(*training.device, stream()), gradients_.tensors(),
            {.name = "train.gradients", .wire = training.wire}) {
  const std::vector<DeviceParameter*> parameters = network_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) index_of_[parameters[i]] = i;
  std::size_t sums = 1;
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    gradients_of_type_.push_back(gradients_of(parameters, type));
    sums += device_kernels::count_partial_sums(gradients_of_type_.back());
    groups_.push_back({type, gradients_of_type_.back()});
  }
  partial_sums_ = training.device->allocate(sums * sizeof(double));
  verdict_ = training.device->allocate(sizeof(GradientVerdict));
  score_ = training.device->allocate(sizeof(BatchScore));
  stream().fill(verdict_.data(), 0, sizeof(GradientVerdict));
}

void DeviceStep::finish() noexcept {
  try {
    stream().synchronize();
  } catch (const std::exception& error) {
    log_warning("a device failed in training: {}", error.what());
  }
}

const GradientVerdict* DeviceStep::verdict() const { return memory_as<GradientVerdict>(verdict_); }
const BatchScore* DeviceStep::batch_score() const { return memory_as<BatchScore>(score_); }

DeviceTensor DeviceStep::forward(DeviceBatch& batch, const DevicePass& pass) {
  return network_->forward(std::move(batch.inputs), pass);
}

void DeviceStep::backward(const DeviceTensor& logits, const DeviceBatch& batch, double normaliser) {
  DeviceTensor gradient = compute_.allocate(logits.shape(), logits.type());
  compare(logits, batch, normaliser, &gradient, gradients_.loss());
  void* const native = stream().native();
  sync_.ready(index_of_.size(), native);
  network_->backward(std::move(gradient), [&](const DeviceParameter& parameter) {
    sync_.ready(index_of_.at(&parameter), native);
  });
}

void DeviceStep::exchange() { sync_.wait_on(stream().native()); }

void DeviceStep::update() { sgd_.step(stream(), measure()); }

void DeviceStep::score(const DeviceTensor& logits, const DeviceBatch& batch) {
  compare(logits, batch, static_cast<double>(batch.rows), nullptr, nullptr);
}

// The scores of the rows go back to the allocator as soon as the stream has its work.
void DeviceStep::compare(const DeviceTensor& logits, const DeviceBatch& batch, double normaliser,
                         DeviceTensor* gradient, float* loss) {
  HORO_CHECK(logits.shape().rank() == 2 && logits.shape()[0] == batch.rows,
             fmt::format("the model's output has shape {}, wants [{}, classes]",
                         logits.shape().to_string(), batch.rows));
  const device_kernels::CrossEntropy shape{
      .rows = batch.rows, .classes = logits.shape()[1], .normaliser = normaliser, .loss = loss};
  const device::Memory rows =
      compute_.allocator().allocate(batch.rows * sizeof(RowScore), stream());
  device_kernels::visit_float_type(logits.type(), "logits", [&]<typename T>(T) {
    device_kernels::softmax_cross_entropy(
        stream(), reinterpret_cast<const T*>(logits.data()), batch.labels, shape,
        gradient == nullptr ? nullptr : reinterpret_cast<T*>(gradient->data()),
        memory_as<RowScore>(rows), memory_as<BatchScore>(score_));
  });
}

device_kernels::GradientUse DeviceStep::measure() {
  if (!options_.clip_norm && !options_.check_finite) return {};
  device_kernels::GradientMeasure how;
  if (options_.clip_norm) how.max_norm = static_cast<float>(*options_.clip_norm);
  auto* verdict = memory_as<GradientVerdict>(verdict_);
  device_kernels::measure_gradients(
      stream(), groups_, {memory_as<double>(partial_sums_), partial_sums_.size() / sizeof(double)},
      verdict, how);
  return {.factor = &verdict->factor, .skip = options_.check_finite ? &verdict->skip : nullptr};
}

}  // namespace horo::ops
