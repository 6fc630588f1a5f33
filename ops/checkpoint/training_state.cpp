#include "ops/checkpoint/training_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ops/checkpoint/checkpoint_part.h"
#include "ops/checkpoint/sharded_state.h"
#include "ops/train/trainer.h"

namespace horo::ops {
namespace {

constexpr const char* kCounters = "optimizer.counters";
constexpr const char* kCompression = "exchange.compression";
constexpr const char* kMethodPrefix = "local.";
constexpr const char* kMethodKey = "local steps";

/// A tensor of the model or the optimizer.
struct Item {
  std::string name;
  Tensor* tensor;
  Backend* backend;
};

std::string model_name(const Parameter& parameter) { return "model." + parameter.name; }

// A parameter of a divided optimizer has the name of a shard.
void add_optimizer_state(const TrainingRun& run, std::vector<Item>& items) {
  for (const Optimizer::State& state : run.optimizer.states())
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      items.push_back(
          {fmt::format("optimizer.{}.{}", state.name, run.optimizer.parameters()[i]->name),
           &state.tensors[i], &run.optimizer.backend()});
}

std::vector<Item> parameter_items(const TrainingRun& run) {
  std::vector<Item> items;
  for (Parameter* parameter : run.model.parameters())
    items.push_back({model_name(*parameter), &parameter->value, &run.model.backend()});
  return items;
}

std::vector<Item> common_items(const TrainingRun& run) {
  std::vector<Item> items = parameter_items(run);
  if (!run.optimizer.is_divided()) add_optimizer_state(run, items);
  return items;
}

std::vector<Item> items_of_rank(const TrainingRun& run) {
  std::vector<Item> items;
  for (Parameter* buffer : run.model.buffers())
    items.push_back({model_name(*buffer), &buffer->value, &run.model.backend()});
  if (run.optimizer.is_divided()) add_optimizer_state(run, items);
  return items;
}

bool is_compressed(const TrainingRun& run) {
  return run.options.compression.kind != Compression::Kind::kNone;
}

/// The exchanges with a state of compression, and the name of each state.
std::vector<std::pair<std::string, GradientSync*>> compressed_syncs(const TrainingRun& run,
                                                                    const MethodState& method) {
  std::vector<std::pair<std::string, GradientSync*>> syncs;
  if (!is_compressed(run)) return syncs;
  for (std::size_t i = 0; i < method.syncs.size(); ++i)
    syncs.emplace_back(fmt::format("{}.{}", kCompression, i), method.syncs[i]);
  if (run.method == nullptr) syncs.emplace_back(kCompression, run.sync);
  return syncs;
}

MethodState method_state(const TrainingRun& run) {
  return run.method == nullptr ? MethodState{} : run.method->state();
}

/// The settings without which a step number does not determine the samples and random choices.
Safetensors::Metadata settings_of(const TrainingRun& run) {
  const SamplerOptions& sampler = run.sampler.options();
  return {{"training samples", std::to_string(sampler.dataset_size)},
          {"global batch", std::to_string(sampler.global_batch)},
          {"seed", std::to_string(sampler.seed)}};
}

void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  std::ranges::copy(from, to.begin());
}

std::span<const std::byte> bytes_of(const Tensor& tensor) { return {tensor.raw(), tensor.bytes()}; }

std::span<std::byte> bytes_of(const TensorView& tensor) {
  return {static_cast<std::byte*>(tensor.data()), tensor.bytes()};
}

Tensor host_tensor(const Safetensors& file, std::size_t index) {
  const Safetensors::Tensor& one = file.tensors()[index];
  Tensor tensor(one.shape, one.type);
  copy_bytes(file.values(index), {tensor.raw(), tensor.bytes()});
  return tensor;
}

void require_like(const Safetensors& file, const std::string& name, DataType type,
                  const Shape& shape) {
  const Safetensors::Tensor& one = file.tensors()[file.index_of(name)];
  HORO_CHECK(one.type == type && one.shape == shape,
             fmt::format("tensor '{}' is {} {}, and {} {} in this model", name, name_of(one.type),
                         one.shape.to_string(), name_of(type), shape.to_string()));
}

/// What part 0 of a checkpoint has, besides what every part has.
std::vector<Item> items_in(const Safetensors& part0, const TrainingRun& run) {
  return has_sharded_state(part0) ? parameter_items(run) : common_items(run);
}

void require_same_tensors(const TrainingRun& run, std::span<const Safetensors> parts) {
  const Safetensors& part0 = parts[0];
  std::vector<Item> items = items_in(part0, run);
  for (Item& item : items_of_rank(run)) items.push_back(std::move(item));
  for (const Item& item : items)
    require_like(part0, item.name, DataType::kFloat32, item.tensor->shape());
  if (const auto counters = run.optimizer.counters(); !counters.empty())
    require_like(part0, kCounters, DataType::kInt64, Shape{counters.size()});
  for (const Safetensors::Tensor& one : part0.tensors()) {
    const bool is_known = one.name == kCounters || one.name.starts_with(kCompression) ||
                          one.name.starts_with(kMethodPrefix) ||
                          (has_sharded_state(part0) && is_shard(one.name)) ||
                          std::ranges::find(items, one.name, &Item::name) != items.end();
    HORO_CHECK(is_known, fmt::format("tensor '{}' is unknown", one.name));
  }
  if (has_sharded_state(part0)) require_all_shards(run.optimizer, parts);
}

}  // namespace

std::string callback_key(std::size_t index) { return fmt::format("callback {}", index); }

bool has_state_per_rank(const TrainingRun& run) {
  return is_compressed(run) || !run.model.buffers().empty() || run.options.shard_optimizer ||
         run.options.local_steps.count > 0;
}

void take_snapshot(TrainingRun& run, const CheckpointName& name, int part, Safetensors& file) {
  const MethodState method = method_state(run);
  if (run.method != nullptr) run.method->show_agreed();
  std::vector<Item> items = items_of_rank(run);
  std::span<std::int64_t> counters;
  if (part == 0) {
    run.optimizer.update_counters();
    counters = run.optimizer.counters();
    for (Item& item : common_items(run)) items.push_back(std::move(item));
  }
  std::vector<std::pair<std::string, std::vector<std::byte>>> compression;
  for (const auto& [state, sync] : compressed_syncs(run, method))
    compression.emplace_back(state, sync->save_compression_state());

  std::vector<Safetensors::Tensor> tensors;
  for (const Item& item : items)
    tensors.push_back({item.name, DataType::kFloat32, item.tensor->shape()});
  if (!counters.empty()) tensors.push_back({kCounters, DataType::kInt64, {counters.size()}});
  for (const NamedTensor& one : method.tensors)
    tensors.push_back({kMethodPrefix + one.name, one.tensor.type(), one.tensor.shape()});
  // Last, because their sizes need not be a multiple of the size of a number.
  for (const auto& [state, bytes] : compression)
    tensors.push_back({state, DataType::kUInt8, {bytes.size()}});
  Safetensors::Metadata metadata = part_metadata(name, part);
  for (auto& setting : settings_of(run)) metadata.push_back(std::move(setting));
  metadata.emplace_back("ranks", std::to_string(run.context.size()));
  metadata.emplace_back("optimizer", run.optimizer.describe());
  if (run.optimizer.is_divided()) metadata.emplace_back(kOptimizerStateKey, kShardedState);
  if (!method.description.empty()) metadata.emplace_back(kMethodKey, method.description);
  if (run.loss_scaling != nullptr) metadata.emplace_back(kLossScaleKey, run.loss_scaling->state());
  const auto& callbacks = run.options.callbacks;
  for (std::size_t i = 0; i < callbacks.size(); ++i)
    if (std::string state = callbacks[i]->state(); !state.empty())
      metadata.emplace_back(callback_key(i), std::move(state));
  file.reset(metadata, std::move(tensors));

  std::size_t next = 0;
  for (const Item& item : items)
    copy_bytes(bytes_of(item.backend->to_host(*item.tensor)), file.values(next++));
  if (!counters.empty()) copy_bytes(std::as_bytes(counters), file.values(next++));
  for (const NamedTensor& one : method.tensors)
    copy_bytes(bytes_of(one.tensor), file.values(next++));
  for (const auto& [state, bytes] : compression) copy_bytes(bytes, file.values(next++));
}

void require_same_training(const TrainingRun& run, std::span<const Safetensors> parts) {
  const Safetensors& part0 = parts[0];
  for (const auto& [key, own] : settings_of(run))
    HORO_CHECK(part0.metadata(key) == own,
               fmt::format("its {} is {}, that of this run {}; resume with the same", key,
                           part0.metadata(key), own));
  try {
    require_same_tensors(run, parts);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("{}; resume with the same model and with the optimizer {} (now {})",
                    error.what(), part0.metadata("optimizer"), run.optimizer.describe()));
  }
}

void load_common_state(TrainingRun& run, std::span<const Safetensors> parts) {
  const Safetensors& part0 = parts[0];
  for (const Item& item : items_in(part0, run))
    copy_bytes(part0.values(part0.index_of(item.name)), {item.tensor->raw(), item.tensor->bytes()});
  if (const auto counters = run.optimizer.counters(); !counters.empty())
    copy_bytes(part0.values(part0.index_of(kCounters)), std::as_writable_bytes(counters));
  if (has_sharded_state(part0)) load_shards(run.optimizer, parts);
}

void load_buffers(TrainingRun& run, std::span<const Safetensors> parts) {
  const std::vector<Parameter*> buffers = run.model.buffers();
  Backend& backend = run.model.backend();
  for (Parameter* buffer : buffers) {
    const std::string name = model_name(*buffer);
    for (const Safetensors& part : parts)
      require_like(part, name, DataType::kFloat32, buffer->value.shape());
    Tensor mean = host_tensor(parts[0], parts[0].index_of(name));
    const std::span<float> values = mean.values();
    for (const Safetensors& part : parts.subspan(1)) {
      const Tensor other = host_tensor(part, part.index_of(name));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values()[i];
    }
    if (parts.size() > 1)
      for (float& value : values) value /= static_cast<float>(parts.size());
    buffer->value = backend.from_host(std::move(mean));
  }
}

bool load_compression(TrainingRun& run, const Safetensors& own_part) {
  bool is_loaded = false;
  for (const auto& [state, sync] : compressed_syncs(run, method_state(run))) {
    if (!own_part.contains(state)) continue;
    sync->load_compression_state(own_part.values(own_part.index_of(state)));
    is_loaded = true;
  }
  return is_loaded;
}

bool load_method_state(TrainingRun& run, const Safetensors& own_part) {
  const MethodState method = method_state(run);
  if (method.description.empty() || own_part.metadata(kMethodKey) != method.description)
    return false;
  for (const NamedTensor& one : method.tensors) {
    const std::string name = kMethodPrefix + one.name;
    require_like(own_part, name, one.tensor.type(), one.tensor.shape());
    copy_bytes(own_part.values(own_part.index_of(name)), bytes_of(one.tensor));
  }
  run.method->restored();
  return true;
}

}  // namespace horo::ops
