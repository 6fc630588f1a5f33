#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/sgd.h"
#include "ops/train/step/step_timer.h"
#include "ops/train/trainer.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

TEST(PhaseScopes, WaitingHasNoPhase) {
  EXPECT_EQ(scope_name_of(StepPhase::kDataWait), "data");
  EXPECT_EQ(scope_name_of(StepPhase::kOptimizer), "update");
  EXPECT_EQ(scope_name_of(StepPhase::kExposedCommunication), "");
}

// Every step of the trainer has all four phases, also with several passes. Measurement does not
// change any bit.
TEST(PhaseScopes, CoverEveryStepOfTheTrainer) {
  const BarsDataset train_set(96, 1), test_set(24, 2);
  for (const std::size_t accumulate : {1, 3}) {
    const observe::TemporaryDirectory directory;
    std::vector<std::string> hashes;
    for (const std::string& setting : {std::string("off"), directory.path().string()})
      testing::run_ranks(2,
                         [&](Context& context) {
                           set_compute_threads(1);
                           const auto model = make_small_model(0.0f);
                           Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
                           Trainer trainer(
                               context, *model, optimizer, train_set, test_set,
                               {.epochs = 1, .global_batch = 24, .accumulate = accumulate});
                           const TrainReport report = trainer.run();
                           if (context.rank() == 0) hashes.push_back(report.param_hash);
                         },
                         {.environment = {"HORO_METRICS=" + setting}});
    ASSERT_EQ(hashes.size(), 2u);
    EXPECT_EQ(hashes[0], hashes[1]);
    for (const char* file : {"rank.0.jsonl", "rank.1.jsonl"}) {
      std::ifstream lines(directory.file(file));
      int steps = 0;
      for (std::string line; std::getline(lines, line); ++steps)
        for (const char* phase : {"data", "forward", "backward"})
          EXPECT_GT(nlohmann::json::parse(line)["phases"][phase], 0) << phase;
      EXPECT_EQ(steps, 4);
    }
  }
}

}  // namespace
}  // namespace horo::ops
