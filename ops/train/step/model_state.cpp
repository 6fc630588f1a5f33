#include "ops/train/step/model_state.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <bit>
#include <utility>
#include <vector>

#include "ops/data/random_stream.h"

namespace horo::ops {

// Hashes the bits of the values, so that replicas which differ in one rounding differ in the hash.
// Names and shapes are included: a permutation of layers changes the hash too.
std::uint64_t hash_parameters(std::span<Parameter* const> parameters) {
  std::uint64_t hash = parameters.size();
  for (const Parameter* parameter : parameters) {
    for (const char letter : parameter->name)
      hash = combine_keys(hash, static_cast<unsigned char>(letter));
    hash = combine_keys(hash, parameter->value.shape().rank());
    for (const std::size_t dimension : parameter->value.shape().dimensions())
      hash = combine_keys(hash, dimension);
    for (const float value : parameter->value.values())
      hash = combine_keys(hash, std::bit_cast<std::uint32_t>(value));
  }
  return hash;
}

// An allgather of 8 bytes per rank. It lets every rank name all ranks that differ from rank 0.
std::string agreed_parameter_hash(Context& context, std::span<Parameter* const> parameters) {
  std::vector<std::int64_t> own{std::bit_cast<std::int64_t>(hash_parameters(parameters))};
  std::vector<std::int64_t> all(static_cast<std::size_t>(context.size()));
  context.allgather(TensorView(own), TensorView(all), {.name = "train.parameter_hash"});
  std::string differing;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) differing += fmt::format("{}{}", differing.empty() ? "" : ", ", rank);
  if (!differing.empty())
    throw Error(
        fmt::format("parameters differ from those of rank 0 on rank(s) {}: an update was not "
                    "the same on all ranks",
                    differing));
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(all[0]));
}

// The "train." prefix keeps these names apart from the operations of the program itself.
void average_buffers(Context& context, Layer& model) {
  const std::vector<Parameter*> buffers = model.buffers();
  if (buffers.empty()) return;
  Backend& backend = model.backend();
  std::vector<Tensor> values;
  std::vector<NamedTensor> tensors;
  for (const Parameter* buffer : buffers) {
    values.push_back(backend.to_host(buffer->value));
    tensors.push_back({"train.buffer." + buffer->name, values.back().view()});
  }
  context.allreduce_group(tensors, {.name = "train.buffers"});
  for (std::size_t i = 0; i < buffers.size(); ++i)
    buffers[i]->value = backend.from_host(std::move(values[i]));
}

// Integer counters belong to the state: AdamW corrects its bias by the number of steps.
void broadcast_state(Context& context, Layer& model, Optimizer& optimizer) {
  std::vector<NamedTensor> tensors;
  for (Parameter* parameter : model.parameters())
    tensors.push_back({"train.parameter." + parameter->name, parameter->value.view()});
  for (Parameter* buffer : model.buffers())
    tensors.push_back({"train.buffer." + buffer->name, buffer->value.view()});
  for (const Optimizer::State& state : optimizer.states())
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      if (state.tensors[i].count() == 0) continue;  // there is no such state of this parameter
      tensors.push_back({fmt::format("train.{}.{}", state.name, optimizer.parameters()[i]->name),
                         state.tensors[i].view()});
    }
  if (const auto counters = optimizer.counters(); !counters.empty())
    tensors.push_back({"train.counters", TensorView(counters)});
  if (!tensors.empty()) context.broadcast_group(tensors, {.name = "train.state"});
}

}  // namespace horo::ops
