#include "ops/train/callbacks/drift_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/adamw.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Flips the lowest bit of a value on one rank, after one step.
class PlantedFlip : public TrainerCallback {
 public:
  enum class Place { kNowhere, kParameter, kState };
  PlantedFlip(Place place, int rank) : place_(place), rank_(rank) {}
  void after_step(TrainingRun& run) override {
    if (run.steps != 5 || run.context.rank() != rank_) return;
    if (place_ == Place::kParameter) flip(run.model.parameters()[2]->value, run);
    if (place_ == Place::kState) flip(run.optimizer.states()[1].tensors[3], run);
  }

 private:
  // The host stand-in of a device has its memory in the address space of the process.
  static void flip(Tensor& tensor, TrainingRun& run) {
    if (device::Stream* const stream = run.model.backend().device_stream()) stream->synchronize();
    tensor.raw()[0] ^= std::byte{1};
  }

  const Place place_;
  const int rank_;
};

struct DriftRun {
  std::vector<std::string> errors;  // of the ranks; empty without one
  std::vector<std::uint64_t> steps;
};

DriftRun train_with_flip(PlantedFlip::Place place, std::uint64_t every, bool on_device,
                         bool is_sharded = false) {
  static const BarsDataset train_set(240, 1), test_set(30, 2);
  DriftRun run{.errors = std::vector<std::string>(3), .steps = std::vector<std::uint64_t>(3)};
  testing::run_ranks(3, [&](Context& context) {
    set_compute_threads(1);
    const auto rank = static_cast<std::size_t>(context.rank());
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    TrainerOptions options{.global_batch = 24, .evaluation_batch = 30};
    options.shard_optimizer = is_sharded;
    if (on_device) options.device.device = device.get();
    options.callbacks = {std::make_shared<PlantedFlip>(place, 1),
                         std::make_shared<DriftGuard>(every)};
    const auto model = make_small_model(0);
    AdamW optimizer(model->parameters(), {.learning_rate = 0.01f});
    try {
      run.steps[rank] =
          Trainer(context, *model, optimizer, train_set, test_set, options).run().steps;
    } catch (const MismatchError& error) {
      run.errors[rank] = error.what();
    }
  });
  return run;
}

TEST(DriftGuard, NamesTheTensorAndTheRankOnAllRanks) {
  using Place = PlantedFlip::Place;
  for (const bool on_device : {false, true})
    for (const Place place : {Place::kParameter, Place::kState}) {
      const DriftRun run = train_with_flip(place, place == Place::kState ? 5 : 3, on_device);
      EXPECT_THAT(
          run.errors[0],
          AllOf(HasSubstr(place == Place::kState ? "step 5: the replicas have diverged"
                                                 : "step 6: the replicas have diverged"),
                HasSubstr(place == Place::kState ? "'second_moment of fc1.bias'" : "'fc1.weight'"),
                HasSubstr("rank 1 ("), HasSubstr("the hash of rank 0 "),
                HasSubstr("and 1 other rank")));
      for (const std::string& error : run.errors) EXPECT_EQ(error, run.errors[0]);
    }
}

TEST(DriftGuard, FindsAParameterWithShards) {
  const DriftRun run = train_with_flip(PlantedFlip::Place::kParameter, 5, false, true);
  EXPECT_THAT(run.errors[2], HasSubstr("'fc1.weight'"));
}

TEST(DriftGuard, IsSilentWhileReplicasAreEqual) {
  for (const bool on_device : {false, true}) {
    const DriftRun run = train_with_flip(PlantedFlip::Place::kNowhere, 2, on_device);
    EXPECT_EQ(run.errors, std::vector<std::string>(3));
    EXPECT_EQ(run.steps, std::vector<std::uint64_t>(3, 10));
  }
}

TEST(DriftGuard, RefusesAnIntervalOfZero) { EXPECT_THROW(DriftGuard(0), InvalidArgument); }

}  // namespace
}  // namespace horo::ops
