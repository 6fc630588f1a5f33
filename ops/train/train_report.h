#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/train/bottleneck/diagnosis.h"
#include "ops/train/step/step_timer.h"

namespace horo::ops {

/// The checkpoints of a run, on this rank.
struct CheckpointFigures {
  std::uint64_t written = 0;      ///< complete checkpoints
  std::uint64_t failed = 0;       ///< that could not be written
  std::uint64_t bytes = 0;        ///< of all that were written
  double training_waited_ms = 0;  ///< for copies and for the writer
  double write_ms = 0;            ///< of the thread that writes, while training continues
};

/// The memory for the states of the optimizer, such as momenta.
struct OptimizerStateFigures {
  std::uint64_t bytes = 0;        ///< on this rank, during training
  std::uint64_t whole_bytes = 0;  ///< for all parameters: the same, unless the state is sharded
};

/// Results and times of a training run.
struct TrainReport {
  int ranks = 1;                   ///< of the job
  std::uint64_t epochs = 0;        ///< that training has reached, from 1
  std::uint64_t first_step = 0;    ///< from 0; not 0 if the run resumed an earlier one
  std::uint64_t steps = 0;         ///< of this run
  bool was_stopped = false;        ///< before all epochs or steps
  std::uint64_t global_batch = 0;  ///< samples of a step over all ranks
  /// Samples of each rank in a step, at the end.
  std::vector<std::size_t> batch_shares;
  double test_accuracy = 0;       ///< 0 to 1, after the last step; 0 for a loss without classes
  double test_loss = 0;           ///< mean over the targets, after the last step
  std::vector<float> losses;      ///< of every step, over all ranks
  std::string param_hash;         ///< 16 hexadecimal digits, the same on all ranks
  double samples_per_second = 0;  ///< of training, without evaluation, over all ranks
  StepTimes median_step;          ///< of this rank
  StepTimes mean_step;            ///< of this rank
  /// Control messages per step after the first step, on the rank that sent the most.
  double control_messages_per_step = 0;
  std::uint64_t clipped_steps = 0;        ///< whose gradients were scaled to clip_norm
  std::uint64_t skipped_steps = 0;        ///< that were not finite
  float loss_scale = 0;                   ///< at the end; 0 without one
  std::uint64_t bad_samples = 0;          ///< reads that failed and were skipped, over all ranks
  LoaderReport loader;                    ///< of the training samples, on this rank
  CompressionFigures compression;         ///< over all steps, on this rank
  CheckpointFigures checkpoints;          ///< of this rank
  OptimizerStateFigures optimizer_state;  ///< of this rank
  std::optional<JobBottlenecks> bottlenecks;  ///< set by a BottleneckReport
};

/// One JSON object, with the keys ranks, epochs, first_step, steps, was_stopped, global_batch,
/// batch_shares, test_accuracy, test_loss, losses, param_hash, samples_per_second, step_ms
/// (data_wait, forward, backward, exposed_communication, optimizer, transfer, logging, checkpoint,
/// total: medians), control_messages_per_step, clipped_steps, skipped_steps, loss_scale,
/// bad_samples, loader (threads, prefetch, waited_ms, reading_ms, reading_cpu_ms),
/// compression_rate, compression_error (relative_error()), checkpoints (written, failed, bytes,
/// training_waited_ms, write_ms), optimizer_state (bytes, whole_bytes), and with a BottleneckReport
/// bottlenecks (see bottleneck/report_json.h).
std::string to_json(const TrainReport& report);

/// Writes to_json() to `path`, replacing it. Throws Error that names the file if it cannot.
void write_json(const TrainReport& report, const std::filesystem::path& path);

}  // namespace horo::ops
