#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/checkpoint/checkpoint_directory.h"
#include "ops/checkpoint/safetensors.h"
#include "ops/train/callbacks/callback.h"

namespace horo::ops {

/// A checkpoint cannot be used or written. Thrown on every rank, with the same text.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// When checkpoints are written, besides the one at the end of a run.
struct CheckpointInterval {
  std::uint64_t steps = 0;           ///< 0: not by steps
  std::chrono::nanoseconds time{0};  ///< by the clock of rank 0; 0: not by time
};

/// "500" (steps) or a duration such as "10min"; "0": only at the end. Throws InvalidArgument.
CheckpointInterval parse_checkpoint_interval(std::string_view text);

/// The options of Checkpoints.
struct CheckpointOptions {
  /// Created if it does not exist. On several hosts, a directory that all of them share.
  std::filesystem::path directory;
  CheckpointInterval every{0, std::chrono::minutes(10)};  ///< besides the one at the end
  /// Complete checkpoints that are kept; at least 1. The disk must have room for one more.
  std::size_t keep = 2;
  /// Continue from the newest checkpoint that can be used; without any, from the begin.
  bool resume = false;
};

/// Saves the state of training to a directory, and resumes from there. A checkpoint has the
/// parameters, the state of the optimizer, the position in the training data, and of every rank its
/// running statistics and the residuals of compression. With the same number of ranks, a resumed
/// run has the same bits as one without interruption. With another number, it continues with the
/// same samples; running statistics are averaged, and residuals start at zero. With local steps, a
/// checkpoint has the agreed parameters, and of every rank its own ones and its optimizer. With
/// another number of ranks or other local steps, all ranks continue with the agreed parameters and
/// the optimizer of rank 0.
///
/// Training waits only while the state is copied to host memory. A thread then writes it. If it has
/// not finished at the next checkpoint, training waits for it. A file is complete or does not exist
/// (write_durably()). If a checkpoint cannot be written, training continues with a warning, except
/// for the last one.
///
/// Equal options on all ranks. Used by one Trainer.
class Checkpoints : public TrainerCallback {
 public:
  /// Throws InvalidArgument for an empty directory or if `keep` is 0.
  explicit Checkpoints(const CheckpointOptions& options);

  StepPhase phase() const override { return StepPhase::kCheckpoint; }
  /// Throws CheckpointError if the directory cannot be created; without `resume` if it contains a
  /// checkpoint; with `resume` if it contains some, but none can be used, or if the newest one that
  /// can be read is from other training.
  void restore(TrainingRun& run) override;
  void start(TrainingRun& run) override;
  StepRequests requests() override;
  void on_outcome(TrainingRun& run, std::uint64_t step, const StepOutcome& outcome) override;
  void after_step(TrainingRun& run) override;
  /// Saves the final state and waits until it is written. Throws CheckpointError if it cannot be.
  void finish(TrainingRun& run, TrainReport& report) override;

 private:
  using Clock = std::chrono::steady_clock;

  CheckpointName resume(TrainingRun& run, const std::vector<CheckpointName>& names);
  CheckpointName read_newest(TrainingRun& run, const std::vector<CheckpointName>& names,
                             std::vector<Safetensors>& parts);
  void clean_up(Context& context, const std::vector<CheckpointName>& names,
                const CheckpointName& used);
  void save(TrainingRun& run);
  double write(const CheckpointName& name, int part);
  void wait_for_writer();
  void check_complete(const CheckpointName& name) const;

  const CheckpointOptions options_;
  const CheckpointDirectory directory_;
  bool is_first_rank_ = false;
  bool is_resumed_ = false;
  std::optional<Safetensors> own_part_;  // of this rank, from restore() to start()
  bool is_requested_ = false;            // on rank 0: by time
  bool is_due_ = false;                  // by a request of any rank
  Clock::time_point latest_;             // when the latest checkpoint was taken
  std::uint64_t latest_step_ = 0;        // of the latest checkpoint
  std::string failure_;                  // of the latest write on this rank; empty: none
  CheckpointFigures figures_;
  Safetensors file_;  // what writer_ writes
  std::future<double>
      writer_;  // returns its time in milliseconds; the last member, as it uses others
};

}  // namespace horo::ops
