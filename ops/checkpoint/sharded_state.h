#pragma once

#include <span>

#include "ops/checkpoint/safetensors.h"
#include "ops/optim/optimizer.h"

// Checkpoints of a run that shards the state of its optimizer: every part has the shards of its
// rank, as optimizer.STATE.NAME[FIRST:END], elements of the state of parameter NAME. Metadata of
// part 0: "optimizer state" is "sharded".

namespace horo::ops {

inline constexpr const char* kOptimizerStateKey = "optimizer state";
inline constexpr const char* kShardedState = "sharded";

/// Whether the parts of the checkpoint of `part0` have shards of the optimizer state. If not, part
/// 0 has the whole state.
bool has_sharded_state(const Safetensors& part0);

/// Whether a tensor of a checkpoint is a shard.
bool is_shard(std::string_view tensor_name);

/// Throws InvalidArgument unless the shards of all parts together are the state of `optimizer`.
void require_all_shards(Optimizer& optimizer, std::span<const Safetensors> parts);

/// Sets the state of `optimizer`, in host memory, from the shards of all parts, whatever the number
/// of ranks that wrote them. Requires require_all_shards().
void load_shards(Optimizer& optimizer, std::span<const Safetensors> parts);

}  // namespace horo::ops
