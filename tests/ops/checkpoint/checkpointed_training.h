#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/checkpoint/checkpoints.h"
#include "ops/nn/models/models.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/checkpoint/checkpoint_files.h"
#include "tests/ops/train/requested_stop.h"
#include "tests/ops/train/small_task.h"
#include "tests/support/memory_file.h"

namespace horo::ops {

struct TrainingResult {
  std::vector<TrainReport> reports;  // of all ranks
  std::string error;                 // of a CheckpointError, which must be the same on all ranks
  std::string shown;                 // by rank 0
};

/// A training run of 2 epochs of 20 steps, with ranks as threads.
struct CheckpointedTraining {
  int ranks = 1;
  CheckpointOptions checkpoints{};  // none without a directory
  bool with_adamw = false;
  bool batch_norm = true;
  float dropout = 0.2f;
  float learning_rate = 0.05f;
  bool on_device = false;
  std::uint64_t stop_at = 0;  // the last rank requests a stop in this step
  const Dataset* train_set = nullptr;
  TrainerOptions trainer{.epochs = 2, .global_batch = 24, .seed = 5, .evaluation_batch = 64};

  TrainingResult run() const {
    static const BarsDataset bars(480, 1), test_set(90, 2);
    const MemoryFile shown;
    TrainingResult result{.reports = std::vector<TrainReport>(static_cast<std::size_t>(ranks))};
    std::vector<std::string> errors(result.reports.size());
    testing::run_ranks(ranks, [&](Context& context) {
      set_compute_threads(1);
      const auto rank = static_cast<std::size_t>(context.rank());
      const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
      TrainerOptions options = trainer;
      options.progress.file = shown.file();
      if (on_device) options.device.device = device.get();
      if (!checkpoints.directory.empty())
        options.callbacks.push_back(std::make_shared<Checkpoints>(checkpoints));
      options.callbacks.push_back(
          std::make_shared<RequestedStop>(context.rank() == ranks - 1 ? stop_at : 0));
      const auto model = make_mlp({.input = {1, BarsDataset::kSide, BarsDataset::kSide},
                                   .hidden = {13},
                                   .classes = BarsDataset::kSide,
                                   .batch_norm = batch_norm,
                                   .dropout = dropout,
                                   .seed = 3});
      std::unique_ptr<Optimizer> optimizer;
      if (with_adamw)
        optimizer = std::make_unique<AdamW>(model->parameters(),
                                            AdamWOptions{.learning_rate = learning_rate});
      else
        optimizer = std::make_unique<Sgd>(
            model->parameters(), SgdOptions{.learning_rate = learning_rate, .momentum = 0.9f});
      try {
        result.reports[rank] = Trainer(context, *model, *optimizer,
                                       train_set == nullptr ? bars : *train_set, test_set, options)
                                   .run();
      } catch (const CheckpointError& error) {
        errors[rank] = error.what();
      }
    });
    result.shown = shown.text();
    result.error = errors[0];
    for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
    return result;
  }
};

/// All files of the checkpoint after `step` have the same bytes in both directories.
inline void expect_same_checkpoint(const CheckpointDirectory& a, const CheckpointDirectory& b,
                                   const CheckpointName& name) {
  for (int part = 0; part < name.parts; ++part)
    EXPECT_EQ(read_whole_file(a.file_of(name, part)), read_whole_file(b.file_of(name, part)))
        << a.file_of(name, part);
}

}  // namespace horo::ops
