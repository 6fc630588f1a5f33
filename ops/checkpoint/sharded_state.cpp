#include "ops/checkpoint/sharded_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace horo::ops {
namespace {

constexpr std::string_view kPrefix = "optimizer.";

/// "optimizer.momentum.fc1.weight[100:250]"
struct ShardName {
  std::string state;  // "optimizer.momentum.fc1.weight"
  std::size_t first = 0, end = 0;
};

std::size_t number_of(std::string_view text, const std::string& name) {
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  HORO_CHECK(error == std::errc() && stop == text.data() + text.size(),
             fmt::format("tensor '{}' has no range of elements", name));
  return number;
}

ShardName parse_shard_name(const std::string& name) {
  const std::size_t open = name.rfind('['), colon = name.rfind(':');
  HORO_CHECK(open != std::string::npos && colon != std::string::npos && open < colon,
             fmt::format("tensor '{}' has no range of elements", name));
  const std::string_view text = name;
  return {name.substr(0, open), number_of(text.substr(open + 1, colon - open - 1), name),
          number_of(text.substr(colon + 1, name.size() - colon - 2), name)};
}

/// The tensors of the whole states by name.
std::map<std::string, Tensor*> whole_states(Optimizer& optimizer) {
  std::map<std::string, Tensor*> wholes;
  for (const Optimizer::State& state : optimizer.states())
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      wholes[fmt::format("{}{}.{}", kPrefix, state.name, optimizer.parameters()[i]->name)] =
          &state.tensors[i];
  return wholes;
}

template <typename Use>
void for_each_shard(std::span<const Safetensors> parts, Use use) {
  for (const Safetensors& part : parts)
    for (std::size_t i = 0; i < part.tensors().size(); ++i)
      if (is_shard(part.tensors()[i].name)) use(part, i, parse_shard_name(part.tensors()[i].name));
}

}  // namespace

bool has_sharded_state(const Safetensors& part0) {
  return part0.metadata(kOptimizerStateKey) == kShardedState;
}

bool is_shard(std::string_view tensor_name) {
  return tensor_name.starts_with(kPrefix) && tensor_name.ends_with(']');
}

// Shards do not overlap, so all elements are there if their number is right.
void require_all_shards(Optimizer& optimizer, std::span<const Safetensors> parts) {
  const auto wholes = whole_states(optimizer);
  std::map<std::string, std::size_t> counts;
  for_each_shard(parts, [&](const Safetensors& part, std::size_t index, const ShardName& shard) {
    const Safetensors::Tensor& tensor = part.tensors()[index];
    const auto whole = wholes.find(shard.state);
    HORO_CHECK(whole != wholes.end(), fmt::format("tensor '{}' is unknown", shard.state));
    HORO_CHECK(tensor.type == DataType::kFloat32 && shard.first <= shard.end &&
                   tensor.shape == Shape{shard.end - shard.first} &&
                   shard.end <= whole->second->count(),
               fmt::format("tensor '{}' is {} {}, and its whole has {} elements in this model",
                           tensor.name, name_of(tensor.type), tensor.shape.to_string(),
                           whole->second->count()));
    counts[shard.state] += shard.end - shard.first;
  });
  for (const auto& [name, whole] : wholes)
    HORO_CHECK(counts[name] == whole->count(),
               fmt::format("tensor '{}' has {} elements in the parts, and {} in this model", name,
                           counts[name], whole->count()));
}

void load_shards(Optimizer& optimizer, std::span<const Safetensors> parts) {
  const auto wholes = whole_states(optimizer);
  for_each_shard(parts, [&](const Safetensors& part, std::size_t index, const ShardName& shard) {
    std::ranges::copy(part.values(index),
                      wholes.at(shard.state)->raw() + shard.first * sizeof(float));
  });
}

}  // namespace horo::ops
