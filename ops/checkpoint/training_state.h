#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ops/checkpoint/checkpoint_directory.h"
#include "ops/checkpoint/safetensors.h"
#include "ops/train/callbacks/callback.h"

// What a checkpoint contains. Part 0 has what is equal on all ranks:
//   model.NAME              parameters
//   optimizer.STATE.NAME    state of the optimizer for a parameter
//   optimizer.counters      int64; if there are any
// Every part has what belongs to its rank:
//   model.NAME              buffers (running statistics)
//   exchange.compression    residuals and factors; with compression
//   optimizer.STATE.NAME[FIRST:END]   in place of the state in part 0, if it is sharded
//   local.*                 with local steps: see UpdateMethod::state(). Part 0 then has the agreed
//                           parameters and the optimizer of rank 0
// Values are float32 in host order, whatever the memory and the type of the training. All random
// choices follow from the seed, the step and the sample, so there is no other random state.

namespace horo::ops {

/// The key of the metadata of part 0 with the state of callback `index`.
std::string callback_key(std::size_t index);

/// The key of the metadata of part 0 with LossScaling::state(), if there is a loss scale.
inline constexpr const char* kLossScaleKey = "loss scale";

/// Whether ranks have state of their own, so that every rank writes a part. Otherwise rank 0 does.
bool has_state_per_rank(const TrainingRun& run);

/// Copies the state of this rank for part `part` into `file`. On a device, blocks until the steps
/// so far have been executed. Valid from TrainerCallback::start() to finish().
void take_snapshot(TrainingRun& run, const CheckpointName& name, int part, Safetensors& file);

/// Throws InvalidArgument, with the difference and the remedy, if `parts` are from training with
/// other samples, batches, seed, model or optimizer. `parts`: part 0, and all others if the state
/// of the optimizer is sharded.
void require_same_training(const TrainingRun& run, std::span<const Safetensors> parts);

/// Sets parameters and optimizer state, in host memory.
void load_common_state(TrainingRun& run, std::span<const Safetensors> parts);

/// Sets the buffers, in the memory of the model, to the averages over the parts, as an evaluation
/// does. Throws InvalidArgument if a part lacks a buffer.
void load_buffers(TrainingRun& run, std::span<const Safetensors> parts);

/// Sets the compression state of this rank from its own part; without one, residuals stay zero.
/// Collective. Throws InvalidArgument on every rank if it is of another kind of compression.
/// Returns whether there was one.
bool load_compression(TrainingRun& run, const Safetensors& own_part);

/// Sets the state of an UpdateMethod on this rank from its own part. Collective. Returns whether
/// there was one of the same options; without, all ranks continue from the parameters and the
/// optimizer state of part 0. Throws InvalidArgument if a tensor is missing or has another shape.
bool load_method_state(TrainingRun& run, const Safetensors& own_part);

}  // namespace horo::ops
