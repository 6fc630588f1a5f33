#include "ops/checkpoint/checkpoints.h"

#include <functional>

#include "ops/train/callbacks/early_stop.h"
#include "tests/ops/checkpoint/checkpointed_training.h"

namespace horo::ops {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Training whose checkpoints are in a temporary directory. Without running statistics, rank 0
/// writes all files.
struct CheckpointsTest : ::testing::Test {
  CheckpointsTest() {
    training.checkpoints = {.directory = temporary.path(), .every = {.steps = 10}, .keep = 2};
  }
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory{temporary.path()};
  CheckpointedTraining training{.ranks = 2, .batch_norm = false};
};

TEST(CheckpointInterval, IsStepsOrTime) {
  EXPECT_EQ(parse_checkpoint_interval("500").steps, 500u);
  EXPECT_EQ(parse_checkpoint_interval("500").time, 0s);
  EXPECT_EQ(parse_checkpoint_interval("10min").time, 10min);
  EXPECT_EQ(parse_checkpoint_interval("1.5 s").steps, 0u);
  for (const char* text : {"", "-1", "5 steps", "often", "99999999999999999999"})
    EXPECT_THROW(parse_checkpoint_interval(text), InvalidArgument) << text;
}

TEST_F(CheckpointsTest, KeepsTheNewestAndReportsTheCost) {
  const TrainingResult result = training.run();
  EXPECT_THAT(directory.complete(), ElementsAre(CheckpointName{40, 1}, CheckpointName{30, 1}));
  const CheckpointFigures& figures = result.reports[0].checkpoints;
  EXPECT_EQ(figures.written, 4u);
  EXPECT_EQ(figures.failed, 0u);
  EXPECT_EQ(figures.bytes, 4 * std::filesystem::file_size(directory.file_of({40, 1}, 0)));
  EXPECT_GT(figures.training_waited_ms, 0);
  EXPECT_GT(figures.write_ms, 0);
  EXPECT_EQ(result.reports[1].checkpoints.written, 0u);
  EXPECT_THAT(result.shown, HasSubstr("checkpoints: 4 of"));
}

TEST_F(CheckpointsTest, AreWrittenByTheClockOfRankZero) {
  training.batch_norm = true;
  training.checkpoints.every = {.time = 1ns};
  training.trainer.steps = 6;
  for (const TrainReport& report : training.run().reports)
    EXPECT_EQ(report.checkpoints.written, 6u);
  training.checkpoints.every = {.time = 1h};
  training.checkpoints.resume = true;
  training.trainer.steps = 9;
  for (const TrainReport& report : training.run().reports)
    EXPECT_EQ(report.checkpoints.written, 1u);  // at the end
  EXPECT_EQ(directory.complete().at(0), (CheckpointName{9, 2}));
}

TEST_F(CheckpointsTest, OnADeviceAllRanksSaveTheSameSteps) {
  training.batch_norm = true;
  training.on_device = true;
  training.checkpoints.every = {.time = 1ns};
  const auto reports = training.run().reports;
  EXPECT_GT(reports[0].checkpoints.written, 2u);
  EXPECT_EQ(reports[1].checkpoints.written, reports[0].checkpoints.written);
  EXPECT_EQ(directory.complete().size(), 2u);
}

TEST_F(CheckpointsTest, RefusesADirectoryOfAnEarlierRun) {
  (void)training.run();
  EXPECT_THAT(training.run().error, AllOf(HasSubstr(temporary.path().string() + " has checkpoints"),
                                          HasSubstr("up to step 40")));
  EXPECT_EQ(directory.complete().size(), 2u);
}

TEST_F(CheckpointsTest, ResumesFromNothingAndFromACompleteRun) {
  training.checkpoints.directory = temporary.path() / "new" / "folder";
  training.checkpoints.resume = true;
  const TrainingResult first = training.run();
  EXPECT_THAT(first.shown, HasSubstr("training starts with step 1"));
  EXPECT_EQ(first.reports[0].first_step, 0u);
  const TrainingResult second = training.run();
  EXPECT_EQ(second.error, "");
  EXPECT_EQ(second.reports[0].first_step, 40u);
  EXPECT_EQ(second.reports[0].steps, 0u);
  EXPECT_EQ(second.reports[0].param_hash, first.reports[0].param_hash);
  EXPECT_EQ(second.reports[0].test_loss, first.reports[0].test_loss);
}

void flip_a_bit(const std::filesystem::path& file) {
  std::vector<std::byte> bytes = read_whole_file(file);
  bytes[bytes.size() - 100] ^= std::byte{4};
  write_bytes(file, bytes);
}

TEST_F(CheckpointsTest, UsesTheOneBeforeADamagedOne) {
  training.batch_norm = true;
  const TrainReport expected = training.run().reports[0];
  flip_a_bit(directory.file_of({40, 2}, 1));
  training.checkpoints.resume = true;
  const TrainingResult result = training.run();
  EXPECT_THAT(result.shown, AllOf(HasSubstr("part-1-of-2.safetensors: damaged: its checksum is"),
                                  HasSubstr("training resumes after step 30")));
  EXPECT_EQ(result.reports[0].first_step, 30u);
  EXPECT_EQ(result.reports[0].param_hash, expected.param_hash);
  EXPECT_EQ(result.reports[0].test_loss, expected.test_loss);
  EXPECT_EQ(directory.complete().at(0), (CheckpointName{40, 2}));
  EXPECT_TRUE(std::filesystem::exists(directory.file_of({40, 2}, 1).string() + ".damaged"));
}

TEST_F(CheckpointsTest, AreNotReplacedIfNoneCanBeUsed) {
  (void)training.run();
  for (const std::uint64_t step : {30, 40}) flip_a_bit(directory.file_of({step, 1}, 0));
  training.checkpoints.resume = true;
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(training.run().error, AllOf(HasSubstr("no checkpoint of"), HasSubstr("can be used"),
                                            HasSubstr(directory.file_of({40, 1}, 0).string())));
  EXPECT_EQ(directory.complete().size(), 2u);
}

TEST_F(CheckpointsTest, RefusesOtherTraining) {
  training.batch_norm = true;
  (void)training.run();
  struct Difference {
    std::string error;
    std::function<void(CheckpointedTraining&)> change;
  };
  const BarsDataset other(240, 1);
  const std::vector<Difference> differences = {
      {"its seed is 5, that of this run 6", [](auto& t) { t.trainer.seed = 6; }},
      {"its global batch is 24", [](auto& t) { t.trainer.global_batch = 12; }},
      {"its training samples is 480", [&](auto& t) { t.train_set = &other; }},
      {"no tensor 'optimizer.first_moment.fc1.weight'", [](auto& t) { t.with_adamw = true; }},
      {"no tensor 'model.fc1.bias'", [](auto& t) { t.batch_norm = false; }}};
  for (const Difference& difference : differences) {
    CheckpointedTraining changed = training;
    changed.checkpoints.resume = true;
    difference.change(changed);
    EXPECT_THAT(changed.run().error,
                AllOf(HasSubstr(directory.file_of({40, 2}, 0).string()),
                      HasSubstr(difference.error), HasSubstr("resume with the same")));
  }
}

TEST_F(CheckpointsTest, FailedWriteDoesNotEndTraining) {
  std::filesystem::create_directories(directory.file_of({20, 1}, 0).string() + ".tmp/kept");
  training.checkpoints.keep = 100;
  const TrainingResult result = training.run();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.reports[0].checkpoints.failed, 1u);
  EXPECT_EQ(result.reports[0].checkpoints.written, 3u);
  EXPECT_THAT(directory.complete(),
              ElementsAre(CheckpointName{40, 1}, CheckpointName{30, 1}, CheckpointName{10, 1}));
}

TEST_F(CheckpointsTest, LostLastCheckpointIsAnErrorOnAllRanks) {
  training.batch_norm = true;
  std::filesystem::create_directories(directory.file_of({40, 2}, 1).string() + ".tmp/kept");
  const TrainingResult result = training.run();
  EXPECT_THAT(result.error,
              AllOf(HasSubstr("the last checkpoint, after step 40, is lost: cannot create"),
                    HasSubstr("Is a directory")));
  EXPECT_EQ(directory.complete().at(0), (CheckpointName{30, 2}));
}

TEST_F(CheckpointsTest, DirectoryThatCannotBeCreatedIsNamed) {
  write_bytes(temporary.file("file"), {});
  training.checkpoints.directory = temporary.file("file") + "/checkpoints";
  EXPECT_THAT(training.run().error, HasSubstr("cannot create " + temporary.file("file")));
  EXPECT_THROW(Checkpoints({.directory = ""}), InvalidArgument);
  EXPECT_THROW(Checkpoints({.directory = "d", .keep = 0}), InvalidArgument);
}

TEST_F(CheckpointsTest, KeepTheStateOfOtherCallbacks) {
  training.learning_rate = 0;  // every evaluation has the same loss
  training.trainer.epochs = 10;
  training.stop_at = 45;
  const auto run = [&] {
    // run() makes callbacks for each rank, except these, so there must be one rank.
    training.ranks = 1;
    training.trainer.callbacks = {std::make_shared<EarlyStop>(EarlyStopOptions{.patience = 3})};
    return training.run().reports[0];
  };
  EXPECT_EQ(run().steps, 45u);
  training.stop_at = 0;
  training.checkpoints.resume = true;
  EXPECT_EQ(run().epochs, 4u);
}

}  // namespace
}  // namespace horo::ops
