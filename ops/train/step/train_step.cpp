#include "ops/train/step/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "horo/base/text/log.h"
#include "ops/backend/device/update/step_state.h"
#include "ops/backend/pixels.h"

namespace horo::ops {
namespace {

using device_kernels::StepState;

const ExchangeOptions& checked(const ExchangeOptions& options, const DeviceTraining& training) {
  check_update_method(options, training);
  if (training.device == nullptr) {
    HORO_CHECK(options.loss_scaling == nullptr, "a loss scale is for training on a device");
    return options;
  }
  HORO_CHECK(options.op == ReduceOp::kAverage,
             "training on a device: gradients are averaged; Adasum is for host memory");
  HORO_CHECK(options.compression.kind == Compression::Kind::kNone,
             "training on a device: compression is for host memory; on a device gradients can "
             "be sent as bfloat16");
  HORO_CHECK(
      (training.type == DataType::kFloat16) == (options.loss_scaling != nullptr) &&
          (options.loss_scaling == nullptr || options.check_finite),
      "training in float16 has a loss scale and the finite check; other types have no scale");
  HORO_CHECK(
      !options.clip_norm || (std::isfinite(*options.clip_norm) && *options.clip_norm > 0),
      fmt::format("training on a device: clip_norm is {}, it must be above 0", *options.clip_norm));
  return options;
}

Optimizer& checked(Optimizer& optimizer, Layer& model) {
  HORO_CHECK(std::ranges::equal(optimizer.parameters(), model.parameters()),
             "training: the optimizer updates all parameters of the model, in its order");
  return optimizer;
}

std::unique_ptr<DeviceBackend> make_backend(const DeviceTraining& training) {
  if (training.device == nullptr) return nullptr;
  return std::make_unique<DeviceBackend>(*training.device, training.type);
}

// Images have their channels last in host memory, where the kernels of oneDNN and of horo are
// faster.
Backend& host_backend() { return cpu_backend(ImageLayout::kChannelsLast); }

template <typename T>
T* memory_as(Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.raw());
}

// The options that decide how parameters are updated. They must be equal on all ranks.
std::vector<std::string> agreed(const Optimizer& optimizer, const Loss& loss,
                                const ExchangeOptions& options) {
  return {optimizer.describe(),
          loss.describe(),
          options.clip_norm ? fmt::format("clip_norm = {}", *options.clip_norm) : "no clip_norm",
          fmt::format("check_finite = {}", options.check_finite),
          options.loss_scaling == nullptr ? "no loss scale"
                                          : "loss scale = " + options.loss_scaling->state(),
          fmt::format("shard_optimizer = {}", options.shard_optimizer),
          "local_steps = " + describe(options.local_steps)};
}

// Whether the scalars are exchanged by a plan of their own: Adasum is not linear, top-k would send
// only the largest of them, and int8 and, in host memory, a wire type would round them.
bool is_separate(const DeviceTraining& training, const ExchangeOptions& options) {
  using Kind = Compression::Kind;
  const Kind kind = options.compression.kind;
  if (has_update_method(options)) return false;  // only the scalars are exchanged
  return options.op != ReduceOp::kAverage || kind == Kind::kTopK || kind == Kind::kInt8 ||
         (training.device == nullptr && options.wire);
}

// On a device, the kernels of the update clip and skip, with a verdict that stays on the device.
// The exchange therefore neither clips nor checks, and leaves the gradients where they are reduced.
GradientSyncOptions sync_options(const Optimizer& optimizer, const Loss& loss,
                                 const DeviceTraining& training, const ExchangeOptions& options) {
  GradientSyncOptions sync{
      .name = "train.gradients", .op = options.op, .also_agreed = agreed(optimizer, loss, options)};
  if (has_update_method(options)) return sync;  // only the scalars are exchanged
  sync.wire = options.wire;
  sync.compression = options.compression;
  sync.backward_passes_per_step = options.passes;
  if (!is_separate(training, options)) sync.metrics = {GradientBlock::kScalarsName};
  if (training.device != nullptr) {
    sync.leave_as_reduced = true;
  } else {
    sync.clip_norm = options.clip_norm;
    sync.check_finite = options.check_finite;
  }
  return sync;
}

// With averaged gradients the scalars are one more tensor of the plan and need no message of their
// own.
std::vector<Parameter*> exchanged_parameters(Layer& model, const ExchangeOptions& options) {
  return has_update_method(options) ? std::vector<Parameter*>() : model.parameters();
}

std::span<const NamedTensor> exchanged(const GradientBlock& gradients,
                                       const DeviceTraining& training,
                                       const ExchangeOptions& options) {
  const auto all = gradients.tensors();
  return is_separate(training, options) ? all.first(all.size() - 1) : all;
}

void synchronize(Backend& backend) {
  if (device::Stream* const stream = backend.device_stream()) stream->synchronize();
}

void fill_with_zeros(Backend& backend, std::byte* to, std::size_t bytes) {
  if (device::Stream* const stream = backend.device_stream())
    stream->fill(to, 0, bytes);
  else
    std::fill_n(to, bytes, std::byte{0});
}

void copy(Backend& backend, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (device::Stream* const stream = backend.device_stream())
    stream->copy(to, from, bytes);
  else
    std::copy_n(from, bytes, to);
}

// A later constructor may throw, which frees memory that work in flight would still use.
Context& synchronized(Context& context, Backend& backend) {
  synchronize(backend);
  return context;
}

}  // namespace

Tensor model_input(Backend& backend, Batch& batch) {
  Tensor inputs = std::move(batch.inputs);
  if (batch.pixel_scales)
    return normalised(backend, inputs, *batch.pixel_scales, batch.crops ? &*batch.crops : nullptr);
  if (!is_floating(inputs.type())) return inputs;
  return backend.in_own_order(std::move(inputs), backend.type());
}

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

TrainStep::TrainStep(Context& context, Layer& model, Optimizer& optimizer, const Loss& loss,
                     const DeviceTraining& training, const ExchangeOptions& options)
    : options_(checked(options, training)),
      loss_function_(loss),
      device_backend_(make_backend(training)),
      backend_(device_backend_ ? *device_backend_ : host_backend()),
      trained_(model, checked(optimizer, model), backend_),
      gradients_(context, backend_, exchanged_parameters(model, options)),
      sync_(synchronized(context, backend_), exchanged(gradients_, training, options),
            sync_options(optimizer, loss, training, options)),
      parameters_(model.parameters()),
      score_(backend_.allocate({sizeof(BatchScore)}, DataType::kUInt8)) {
  const std::span<const NamedTensor> tensors = gradients_.tensors();
  if (is_separate(training, options))
    scalar_sync_.emplace(context, tensors.last(1),
                         GradientSyncOptions{.name = GradientBlock::kScalarsName});
  method_ = make_update_method(context, optimizer, sync_, gradients_.own_scalars(), options);
  for (std::size_t i = 0; i < parameters_.size(); ++i) index_of_[parameters_[i]] = i;
  if (options.passes > 1) {
    for (const Parameter* parameter : parameters_)
      sums_.push_back(backend_.allocate(parameter->gradient.shape(), DataType::kFloat32));
    sums_.push_back(backend_.allocate(gradients_.scalars().shape(), DataType::kFloat32));
    clear_sums();
  }
  if (!device_backend_) return;
  state_ = backend_.allocate({sizeof(StepState)}, DataType::kUInt8);
  if (loss_scaling() != nullptr) loss_scaling()->move_to(*device_backend_);
  std::vector<ReducedGradient> reduced;
  for (std::size_t i = 0; i < tensors.size(); ++i) reduced.push_back(sync_.reduced(i));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    locations_.push_back({reduced[i].data, reduced[i].type, static_cast<float>(reduced[i].scale)});
  measured_.emplace(device_backend_->device(), device_backend_->stream(), parameters_, reduced);
}

TrainStep::~TrainStep() {
  finish();
  if (loss_scaling() != nullptr) loss_scaling()->reset();
}

void TrainStep::finish() noexcept {
  try {
    synchronize(backend_);
  } catch (const std::exception& error) {
    log_warning("a device failed in training: {}", error.what());
  }
}

ReducedGradient TrainStep::scalars() const {
  if (!scalar_sync_) return sync_.reduced(parameters_.size());
  return scalar_sync_->reduced(0);
}

const device_kernels::GradientVerdict* TrainStep::verdict() const {
  return measured_ ? measured_->verdict() : nullptr;
}

const BatchScore* TrainStep::batch_score() const {
  return reinterpret_cast<const BatchScore*>(score_.raw());
}

void TrainStep::set_step(std::uint64_t step, const StepRequests& requests) {
  StepRequests* const own = &gradients_.own_scalars().requests;
  if (device_backend_)
    device_kernels::set_step(device_backend_->stream(), memory_as<StepState>(state_),
                             {step, trained_.optimizer().learning_rate()}, own, requests);
  else
    *own = requests;
}

Tensor TrainStep::forward(Batch& batch, Pass pass) {
  pass.samples = batch.sample_indices();
  if (device_backend_) pass.device_step = &memory_as<StepState>(state_)->step;
  return model().forward(model_input(backend_, batch), pass);
}

// Rows of padding come last. The loss reads the rows before them, and the gradient by the rest is
// zero.
Tensor TrainStep::loss_gradient(Tensor output, const Batch& batch, double samples) {
  BatchScore* const score = memory_as<BatchScore>(score_);
  float* const loss = &gradients_.own_scalars().loss;
  const float* const scale =
      loss_scaling() == nullptr ? nullptr : &loss_scaling()->on_device()->scale;
  if (batch.padding == 0)
    return loss_function_.backward(backend_, std::move(output), batch.targets, samples, score, loss,
                                   scale);
  Tensor gradient = backend_.allocate(output.shape(), output.type());
  fill_with_zeros(backend_, gradient.raw(), gradient.bytes());
  const std::size_t rows = batch.counted_rows();
  if (rows == 0) {
    fill_with_zeros(backend_, score_.raw(), sizeof *score);
    fill_with_zeros(backend_, reinterpret_cast<std::byte*>(loss), sizeof *loss);
    return gradient;
  }
  const Tensor counted = loss_function_.backward(
      backend_, output.rows(0, rows), batch.targets.rows(0, rows), samples, score, loss, scale);
  copy(backend_, gradient.raw(), counted.raw(), counted.bytes());
  return gradient;
}

// The scalars are marked before the gradients, so their reduction overlaps with the backward pass.
void TrainStep::backward(Tensor output, const Batch& batch, double samples) {
  Tensor gradient = loss_gradient(std::move(output), batch, samples);
  gradient_ready(parameters_.size(), gradients_.scalars());
  model().backward(std::move(gradient), [&](const Parameter& parameter) {
    const std::size_t index = index_of_.at(&parameter);
    gradient_ready(index, parameters_[index]->gradient);
  });
}

// Backward overwrites the gradients, so a step with several passes keeps their sum. Passes are
// added in order, so that the sum has the same bits every time. The sum of the last pass is written
// into the exchanged tensor.
void TrainStep::gradient_ready(std::size_t gradient, Tensor& own) {
  if (!sums_.empty()) backend_.add_to(is_last_pass() ? own : sums_[gradient], sums_[gradient], own);
  if (method_) {
    if (is_last_pass()) method_->ready(gradient);
  } else if (!scalar_sync_ || gradient < parameters_.size())
    mark(gradient);
  else if (is_last_pass())
    scalar_sync_->ready(0);  // this plan counts no passes
}

void TrainStep::mark(std::size_t gradient) {
  if (device::Stream* const stream = backend_.device_stream())
    sync_.ready(gradient, stream->native());
  else
    sync_.ready(gradient);
}

void TrainStep::move_back() {
  if (loss_scaling() != nullptr) loss_scaling()->release();
  if (method_) method_->finish();
  trained_.move_back();
}

void TrainStep::end_pass() {
  exchange();
  ++pass_;
}

void TrainStep::exchange() {
  if (method_) {
    if (is_last_pass()) method_->exchange();
    return;
  }
  if (device::Stream* const stream = backend_.device_stream())
    sync_.wait_on(stream->native());
  else
    sync_.wait();
  if (scalar_sync_ && is_last_pass()) scalar_sync_->wait();
}

void TrainStep::clear_sums() {
  for (Tensor& sum : sums_) fill_with_zeros(backend_, sum.raw(), sum.bytes());
}

// On a device the verdict stays there: the optimizer kernels read the clipping factor and the skip
// flag. The step therefore never waits for the host. In host memory the report is computed from the
// reduced gradients and is equal on all ranks. In both, all ranks skip the step or none does.
void TrainStep::update() {
  pass_ = 0;
  clear_sums();
  if (method_) return method_->update();
  Optimizer& optimizer = trained_.optimizer();
  if (!device_backend_) {
    if (!options_.check_finite || sync_.report().is_finite) optimizer.step();
    return;
  }
  StepGradients gradients{.locations = locations_,
                          .learning_rate = &memory_as<StepState>(state_)->learning_rate};
  if (options_.clip_norm || options_.check_finite) {
    device_kernels::GradientMeasure how;
    if (options_.clip_norm) how.max_norm = static_cast<float>(*options_.clip_norm);
    if (options_.check_finite) how.also = &static_cast<const StepScalars*>(scalars().data)->loss;
    if (loss_scaling() != nullptr) {
      how.loss_scale = loss_scaling()->on_device();
      how.growth_interval = loss_scaling()->growth_interval();
    }
    measured_->measure(device_backend_->stream(), how);
    gradients.factor = &verdict()->factor;
    if (options_.check_finite) gradients.skip = &verdict()->skip;
  }
  optimizer.step(gradients);
}

void TrainStep::score(const Tensor& output, const Batch& batch) {
  const std::size_t rows = batch.counted_rows();
  if (rows == 0)
    fill_with_zeros(backend_, score_.raw(), sizeof(BatchScore));
  else
    loss_function_.score(backend_, output.rows(0, rows), batch.targets.rows(0, rows),
                         memory_as<BatchScore>(score_));
}

}  // namespace horo::ops
