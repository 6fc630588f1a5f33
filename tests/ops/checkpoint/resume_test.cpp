// Resumed runs compared with undisturbed ones.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "ops/checkpoint/training_state.h"
#include "tests/ops/checkpoint/checkpointed_training.h"
#include "tests/support/sanitizer.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

/// Removes the newest checkpoint, as if the run had been killed after the one before it.
void remove_newest(const CheckpointDirectory& directory) {
  const CheckpointName name = directory.complete().at(0);
  for (int part = 0; part < name.parts; ++part)
    std::filesystem::remove(directory.file_of(name, part));
}

/// Stops near step 13 and resumes, from there and from the checkpoint before. Compares all state
/// after the last step, bit by bit.
void expect_resumes_with_same_bits(CheckpointedTraining training) {
  const observe::TemporaryDirectory undisturbed, disturbed;
  training.checkpoints = {.directory = undisturbed.path(), .every = {.steps = 7}, .keep = 100};
  const TrainReport expected = training.run().reports[0];
  EXPECT_EQ(expected.steps, 40u);
  const CheckpointDirectory expected_files(undisturbed.path());
  const CheckpointName last = expected_files.complete().at(0);
  EXPECT_EQ(last, (CheckpointName{40, training.ranks}));

  training.checkpoints.directory = disturbed.path();
  training.stop_at = 13;
  const TrainReport stopped = training.run().reports[0];
  EXPECT_TRUE(stopped.was_stopped);
  EXPECT_GE(stopped.steps, 13u);
  training.stop_at = 0;
  training.checkpoints.resume = true;
  const CheckpointDirectory files(disturbed.path());
  for (const bool from_final : {true, false}) {
    if (!from_final)
      while (files.complete().at(0).step > 7) remove_newest(files);
    const std::uint64_t first = from_final ? stopped.steps : 7;
    const TrainingResult resumed = training.run();
    EXPECT_THAT(resumed.shown, HasSubstr("training resumes after step " + std::to_string(first)));
    for (const TrainReport& report : resumed.reports) {
      EXPECT_EQ(report.first_step, first);
      EXPECT_EQ(report.steps, 40 - first);
      EXPECT_EQ(report.losses,
                std::vector<float>(expected.losses.begin() + static_cast<std::ptrdiff_t>(first),
                                   expected.losses.end()));
      EXPECT_EQ(report.param_hash, expected.param_hash);
      EXPECT_EQ(report.test_loss, expected.test_loss);
    }
    expect_same_checkpoint(files, expected_files, last);
  }
}

std::vector<int> tested_ranks(std::vector<int> counts) {
  return kHasSanitizer ? std::vector{2} : counts;
}

TEST(Resume, HasTheBitsOfAnUndisturbedRun) {
  for (const int ranks : tested_ranks({1, 2, 3}))
    for (const bool with_adamw : {false, true})
      expect_resumes_with_same_bits({.ranks = ranks, .with_adamw = with_adamw});
}

TEST(Resume, ContinuesTheResidualsOfCompression) {
  for (const Compression& compression :
       {Compression{.kind = Compression::Kind::kPowerSgd, .rank = 1},
        Compression{.kind = Compression::Kind::kTopK, .fraction = 0.1}}) {
    CheckpointedTraining training{.ranks = 2};
    training.trainer.compression = compression;
    expect_resumes_with_same_bits(training);
  }
}

TEST(Resume, ContinuesAShardedOptimizer) {
  for (const bool with_adamw : {false, true}) {
    CheckpointedTraining training{.ranks = 3, .with_adamw = with_adamw, .batch_norm = false};
    training.trainer.shard_optimizer = true;
    expect_resumes_with_same_bits(training);
  }
}

TEST(Resume, ContinuesLocalStepsAndExchangesInFlight) {
  for (const LocalSteps& steps : {local_sgd(4), diloco(5), diloco(6, 3, 4)}) {
    CheckpointedTraining training{.ranks = 2, .with_adamw = steps.fragments > 1};
    training.trainer.local_steps = steps;
    if (steps.fragments > 1) training.trainer.compression = {.kind = Compression::Kind::kInt8};
    expect_resumes_with_same_bits(training);
  }
}

// With other ranks or other local steps, training continues from the agreed parameters.
TEST(Resume, ContinuesLocalStepsFromAgreedParameters) {
  struct Case {
    LocalSteps before, after;
    int ranks;
    bool is_continued;
  };
  for (const auto& [before, after, ranks, is_continued] :
       {Case{{}, diloco(4, 2, 1), 2, false}, Case{diloco(4, 2, 1), {}, 2, false},
        Case{local_sgd(3), diloco(4), 2, false}, Case{diloco(4), diloco(4), 3, false},
        Case{diloco(4), diloco(4), 2, true}}) {
    const observe::TemporaryDirectory directory;
    CheckpointedTraining run{.ranks = 2, .batch_norm = false, .dropout = 0};
    run.checkpoints = {.directory = directory.path(), .every = {.steps = 16}};
    run.trainer.steps = 16;
    run.trainer.local_steps = before;
    const TrainReport first = run.run().reports[0];
    run.checkpoints.resume = true;
    run.ranks = ranks;
    run.trainer.local_steps = after;
    run.trainer.steps = 32;
    const TrainingResult second = run.run();
    ASSERT_EQ(second.error, "");
    EXPECT_EQ(second.reports[0].losses.size(), 16u);
    EXPECT_LT(second.reports[0].test_loss, first.test_loss);
    EXPECT_EQ(
        second.shown.find("all ranks continue with the agreed parameters") != std::string::npos,
        after.count > 0 && !is_continued);
  }
}

// The shards of three ranks continue on any number of ranks, with and without shards, as the whole
// state of an unsharded run does.
TEST(Resume, DividesShardsAgain) {
  CheckpointedTraining training{.ranks = 3, .with_adamw = true, .batch_norm = false};
  training.trainer.steps = 40;
  const std::vector<float> expected = training.run().reports[0].losses;
  for (const bool was_sharded : {true, false})
    for (const int ranks : {1, 2, 5})
      for (const bool is_sharded : {true, false}) {
        if (!was_sharded && !is_sharded) continue;
        const observe::TemporaryDirectory directory;
        CheckpointedTraining first = training;
        first.checkpoints = {.directory = directory.path(), .every = {.steps = 8}};
        first.trainer.steps = 16;
        first.trainer.shard_optimizer = was_sharded;
        first.run();
        CheckpointedTraining second = first;
        second.ranks = ranks;
        second.checkpoints.resume = true;
        second.trainer.steps = 24;
        second.trainer.shard_optimizer = is_sharded;
        const TrainingResult resumed = second.run();
        ASSERT_EQ(resumed.error, "");
        for (const TrainReport& report : resumed.reports) {
          ASSERT_EQ(report.losses.size(), 8u);
          for (std::size_t i = 0; i < report.losses.size(); ++i)
            EXPECT_NEAR(report.losses[i], expected[16 + i], 1e-4f * expected[16 + i]);
        }
      }
}

// A checkpoint has the number of steps, which are whole global batches.
TEST(Resume, ContinuesWithOtherBatchShares) {
  CheckpointedTraining training{.ranks = 1, .batch_norm = false};
  const std::vector<float> expected = training.run().reports[0].losses;
  const observe::TemporaryDirectory directory;
  training.checkpoints.directory = directory.path();
  training.ranks = 2;
  training.trainer.shares.weights = {3, 1};
  training.stop_at = 13;
  (void)training.run();
  training.checkpoints.resume = true;
  training.ranks = 3;
  training.trainer.shares = {.weights = {1, 2, 1}, .automatic = true, .every = 4};
  training.stop_at = 0;
  const TrainingResult resumed = training.run();
  ASSERT_EQ(resumed.error, "");
  const std::vector<float>& losses = resumed.reports[0].losses;
  ASSERT_EQ(losses.size(), 27u);
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[13 + i], 1e-4f * expected[13 + i]);
}

TEST(Resume, RefusesShardsOfAnotherOptimizer) {
  const observe::TemporaryDirectory directory;
  CheckpointedTraining training{.ranks = 2, .batch_norm = false};
  training.checkpoints = {.directory = directory.path(), .every = {.steps = 8}};
  training.trainer.steps = 8;
  training.trainer.shard_optimizer = true;
  training.run();
  training.checkpoints.resume = true;
  training.trainer.steps = 16;
  training.with_adamw = true;
  EXPECT_THAT(training.run().error,
              HasSubstr("resume with the same model and with the optimizer Sgd with momentum 0.9"));
}

// The scale doubles after 3 good steps in a row, which the checkpoint after step 5 interrupts.
TEST(Resume, KeepsTheLossScale) {
  const observe::TemporaryDirectory directory;
  CheckpointedTraining training{.ranks = 2, .batch_norm = false, .on_device = true};
  training.trainer.device.type = DataType::kFloat16;
  training.trainer.device.loss_scale = {.initial = 64, .growth_interval = 3};
  training.trainer.steps = 10;
  const TrainReport expected = training.run().reports[0];
  EXPECT_EQ(expected.loss_scale, 512);
  training.checkpoints.directory = directory.path();
  training.trainer.steps = 5;
  EXPECT_EQ(training.run().reports[0].loss_scale, 128);
  training.checkpoints.resume = true;
  training.trainer.steps = 10;
  for (const TrainReport& report : training.run().reports) {
    EXPECT_EQ(report.loss_scale, expected.loss_scale);
    EXPECT_EQ(report.param_hash, expected.param_hash);
  }
}

TEST(Resume, HasTheSameBitsOnADevice) {
  for (const int ranks : tested_ranks({1, 2}))
    for (const bool with_adamw : {false, true}) {
      CheckpointedTraining training{.ranks = ranks, .with_adamw = with_adamw, .on_device = true};
      training.trainer.device.graph = with_adamw;
      expect_resumes_with_same_bits(training);
    }
}

TEST(Resume, CheckpointsDoNotChangeTheBits) {
  const observe::TemporaryDirectory directory;
  CheckpointedTraining training{.ranks = 2};
  const TrainReport expected = training.run().reports[0];
  training.checkpoints = {.directory = directory.path(), .every = {.steps = 1}};
  const TrainReport report = training.run().reports[1];
  EXPECT_EQ(report.losses, expected.losses);
  EXPECT_EQ(report.param_hash, expected.param_hash);
  EXPECT_EQ(report.test_loss, expected.test_loss);
}

/// Records which samples are read.
class RecordingDataset : public BarsDataset {
 public:
  using BarsDataset::BarsDataset;
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    {
      const std::scoped_lock lock(mutex_);
      read_.push_back(index);
    }
    return BarsDataset::copy_sample(index, values);
  }
  std::vector<std::size_t> take() const {
    std::ranges::sort(read_);
    return std::exchange(read_, {});
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::size_t> read_;
};

TEST(Resume, AnyNumberOfRanksContinuesWithTheSameSamples) {
  const RecordingDataset recorder(480, 1);
  CheckpointedTraining training{.batch_norm = false, .train_set = &recorder};
  const std::vector<float> losses = training.run().reports[0].losses;
  const GlobalSampler sampler({.dataset_size = 480, .global_batch = 24, .seed = 5}, 0, 1);
  std::vector<std::size_t> expected;
  for (std::uint64_t step = 13; step < 40; ++step)
    for (const std::uint64_t sample : sampler.samples(sampler.locate(step)))
      expected.push_back(sample);
  std::ranges::sort(expected);
  for (const int before : tested_ranks({1, 2}))
    for (const int after : tested_ranks({1, 2, 4})) {
      const observe::TemporaryDirectory directory;
      training.checkpoints = {.directory = directory.path()};
      training.ranks = before;
      training.stop_at = 13;
      (void)training.run();
      (void)recorder.take();
      training.checkpoints.resume = true;
      training.ranks = after;
      training.stop_at = 0;
      const TrainReport report = training.run().reports[0];
      EXPECT_EQ(recorder.take(), expected) << before << " then " << after << " ranks";
      ASSERT_EQ(report.losses.size(), 27u);
      for (std::size_t i = 0; i < 27; ++i)
        EXPECT_NEAR(report.losses[i], losses[13 + i], 1e-4 * std::abs(losses[13 + i]));
    }
}

/// Keeps the running statistics with which rank 2 starts to train.
class StartingStatistics : public TrainerCallback {
 public:
  void start(TrainingRun& run) override {
    if (run.context.rank() != 2) return;
    for (const Parameter* buffer : run.model.buffers())
      values.insert(values.end(), buffer->value.values().begin(), buffer->value.values().end());
  }
  std::vector<float> values;
};

TEST(Resume, AnotherNumberOfRanksAveragesRunningStatistics) {
  const observe::TemporaryDirectory directory;
  CheckpointedTraining training{.ranks = 2, .stop_at = 13};
  training.trainer.compression = {.kind = Compression::Kind::kTopK, .fraction = 0.1};
  training.checkpoints = {.directory = directory.path()};
  (void)training.run();
  std::vector<std::vector<float>> saved;
  for (const int part : {0, 1}) {
    const Safetensors file = read_part(CheckpointDirectory(directory.path()), {13, 2}, part);
    std::vector<float>& values = saved.emplace_back();
    for (const char* name : {"model.norm1.running_mean", "model.norm1.running_variance"}) {
      values.resize(values.size() + 13);
      std::ranges::copy(file.values(file.index_of(name)),
                        std::as_writable_bytes(std::span(values).last(13)).begin());
    }
  }
  EXPECT_NE(saved[0], saved[1]);
  training.ranks = 3;
  training.stop_at = 1;
  training.checkpoints.resume = true;
  const auto statistics = std::make_shared<StartingStatistics>();
  training.trainer.callbacks = {statistics};
  EXPECT_THAT(training.run().shown, HasSubstr("the residuals of compression start at zero"));
  ASSERT_EQ(statistics->values.size(), 26u);
  for (std::size_t i = 0; i < 26; ++i)
    EXPECT_EQ(statistics->values[i], (saved[0][i] + saved[1][i]) / 2) << i;
}

}  // namespace
}  // namespace horo::ops
