#include "ops/train/bottleneck/scaling_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/train/bottleneck/diagnosis.h"
#include "tests/ops/train/bottleneck/made_costs.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;

/// Forward and backward take 9 ms, the optimizer 0.5 ms; `exposed_ms` of the exchange is not
/// hidden.
JobCosts model_job(double exposed_ms, double exchange_ms, double latency_ms = 0.02) {
  JobCosts job = made_job(2, exposed_ms, [](std::size_t, std::size_t) { return usual_step(); });
  job.communication = {.exchange = {.bytes = 4e6, .buckets = 10, .milliseconds = exchange_ms},
                       .latency_ms = latency_ms,
                       .bandwidth = 1e9};
  job.last_step = 100;
  return job;
}

TEST(ScalingModel, PredictsMoreRanksFromLatencyAndBandwidth) {
  const auto model = diagnose(model_job(4, 12)).model;  // 0.2 ms of latency
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->compute_ms, 9, 1e-9);
  EXPECT_NEAR(model->communication_ms, 12, 1e-9);
  EXPECT_NEAR(model->rest_ms, 13.5 - 12, 1e-9);
  ASSERT_EQ(model->predictions.size(), 3u);
  const auto predicted = [&](double ranks) {
    return 0.2 * (ranks - 1) + 11.8 * ((ranks - 1) / ranks) / 0.5 + 1.5;
  };
  for (const ScalingPrediction& prediction : model->predictions) {
    EXPECT_NEAR(prediction.step_ms, predicted(prediction.ranks), 1e-9);
    EXPECT_NEAR(prediction.efficiency, 13.5 / prediction.step_ms, 1e-9);
  }
  EXPECT_EQ(model->hiding_batch, 43u);  // 32 * 12 / 9
  EXPECT_FALSE(model->is_lower_bound);
}

// Without a latency only the bytes grow: 1.5 times for 4 ranks, 1.875 times for 16.
TEST(ScalingModel, IsALowerBoundWithoutTheLatency) {
  const auto model = diagnose(model_job(4, 12, 0)).model;
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->is_lower_bound);
  EXPECT_NEAR(model->predictions[0].step_ms, 12 * 1.5 + 1.5, 1e-9);
  EXPECT_NEAR(model->predictions[2].step_ms, 12 * 1.875 + 1.5, 1e-9);
}

// The optimizer phase is an allgather of 2 ms and an update of 1 ms, which more ranks divide.
TEST(ScalingModel, AddsTheAllgatherOfAShardedOptimizer) {
  JobCosts job = made_job(2, 1, [](std::size_t, std::size_t) {
    return usual_step({{StepPhase::kOptimizer, 2.5}, {StepPhase::kLogging, 1}});
  });
  job.is_sharded = true;
  job.communication = {.exchange = {.bytes = 4e6, .buckets = 5, .milliseconds = 6},
                       .latency_ms = 0.1,
                       .gather_ms = 2};
  const auto model = diagnose(job).model;
  ASSERT_TRUE(model);
  // Measured: 9 + 1 + 3 + 1 ms.
  EXPECT_NEAR(model->step_ms(), 14, 1e-9);
  EXPECT_NEAR(model->rest_ms, 14 - 9 - 2, 1e-9);
  EXPECT_NEAR(model->exposed_ms(), 2, 1e-9);
  // 4 ranks: the latency of 0.5 ms is 3 times as long, the rest 1.5 times.
  const double reduce = 0.5 * 3 + 5.5 * 1.5, gather = 0.5 * 3 + 1.5 * 1.5;
  EXPECT_NEAR(model->predictions[0].communication_ms, reduce, 1e-9);
  EXPECT_NEAR(model->predictions[0].step_ms, reduce + gather + (3 - 0.5), 1e-9);
  EXPECT_EQ(model->hiding_batch, 22u);  // 32 * 6 / 9
  EXPECT_THAT(describe(*model), HasSubstr("reduce-scatter 6 ms) + allgather 2 ms + rest 3 ms"));
}

/// Rank 0 waits for each exchange of 10 local steps for 20 ms.
JobCosts local_job(const LocalSteps& steps) {
  JobCosts job = made_job(2, 0, [](std::size_t, std::size_t) { return usual_step(); });
  for (RankCosts& rank : job.ranks)
    for (std::size_t step = 9; step < 100; step += 10)
      rank.steps[step][StepPhase::kExposedCommunication] = 20;
  job.local_steps = steps;
  job.last_step = 100;
  job.communication = {.exchange = {.bytes = 4e6, .buckets = 1, .milliseconds = 20},
                       .latency_ms = 1};
  return job;
}

TEST(ScalingModel, DividesAnExchangeByTheLocalSteps) {
  const auto model = diagnose(local_job({.count = 10})).model;
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->compute_ms, 9, 1e-9);
  EXPECT_NEAR(model->exposed_ms(), 2, 1e-9);
  EXPECT_NEAR(model->rest_ms, 0.5, 1e-9);
  EXPECT_NEAR(model->predictions[0].step_ms, 9.5 + (1 * 3 + 19 * 1.5) / 10, 1e-9);
  EXPECT_FALSE(model->hiding_batch);  // no step hides an exchange
  EXPECT_THAT(describe(*model), HasSubstr("exposed communication 2 ms (20 ms in 10 steps)"));
}

// A step of 9.5 ms hides 9.5 of 20 ms; with 4 ranks 9.5 of 31.5 ms.
TEST(ScalingModel, SubtractsWhatOverlappingLocalStepsHide) {
  JobCosts job = local_job({.count = 10, .overlap = 1});
  for (RankCosts& rank : job.ranks)
    for (std::size_t step = 9; step < 100; step += 10)
      rank.steps[step][StepPhase::kExposedCommunication] = 10.5;
  const auto model = diagnose(job).model;
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->rest_ms, 0.5, 1e-9);
  EXPECT_NEAR(model->exposed_ms(), 1.05, 1e-9);
  EXPECT_NEAR(model->step_ms(), 10.55, 1e-9);
  EXPECT_NEAR(model->predictions[0].step_ms, 9.5 + (31.5 - 9.5) / 10, 1e-9);
  EXPECT_EQ(model->hiding_batch, 70u);  // ceil(32 * (20 - 0.5) / 9)
}

// Four steps during each of two fragments hide all of 20 ms.
TEST(ScalingModel, HidesExchangesThatEndInTime) {
  JobCosts job = local_job({.count = 10, .fragments = 2, .overlap = 4});
  for (RankCosts& rank : job.ranks)
    for (StepTimes& step : rank.steps) step[StepPhase::kExposedCommunication] = 0;
  const auto model = diagnose(job).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->exposed_ms(), 0);
  EXPECT_NEAR(model->predictions[2].step_ms, 9.5, 1e-9);
  EXPECT_EQ(model->hiding_batch, 8u);  // ceil(32 * (20 / 8 - 0.5) / 9)
}

TEST(ScalingModel, NamesTheReasonWhyThereIsNone) {
  JobCosts job = model_job(1, 1);
  job.communication.reset();
  EXPECT_FALSE(diagnose(job).model);
  EXPECT_EQ(diagnose(job).no_model, "the exchange was not measured");
  job.why_unmeasured = "one rank exchanges nothing";
  EXPECT_EQ(diagnose(job).no_model, "one rank exchanges nothing");
  EXPECT_EQ(diagnose(model_job(1, 1)).no_model, "");
}

TEST(Diagnosis, RecommendsOverlapOrMoreLocalSteps) {
  const LocalSteps outer = diloco(10);
  Diagnosis diagnosis = diagnose(local_job(outer));
  ASSERT_FALSE(diagnosis.recommendations.empty());
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kOuterExchange);
  EXPECT_EQ(diagnosis.recommendations[0].remedy, "--overlap 3");  // 20 / 9.5
  EXPECT_NEAR(diagnosis.recommendations[0].regained_ms, 2, 1e-9);
  diagnosis = diagnose(local_job(local_sgd(10)));
  ASSERT_FALSE(diagnosis.recommendations.empty());
  EXPECT_EQ(diagnosis.recommendations[0].remedy, "--local-steps 30");  // 2 / (0.1 * 9.5)
  EXPECT_NEAR(diagnosis.recommendations[0].regained_ms, 2 * 2.0 / 3, 1e-9);
}

// What the last step of a run exchanges without overlap is no reason for more overlap.
TEST(Diagnosis, RecommendsNoOverlapThatThereIs) {
  JobCosts job = local_job(diloco(10, 1, 3));
  for (RankCosts& rank : job.ranks)
    for (StepTimes& step : rank.steps)
      step[StepPhase::kExposedCommunication] = &step == &rank.steps.back() ? 100 : 0;
  for (const Recommendation& one : diagnose(job).recommendations)
    EXPECT_NE(one.cause, Cause::kOuterExchange);
}

// Of local steps, the change that regains most comes first.
TEST(Diagnosis, OrdersChangesOfLocalSteps) {
  JobCosts job = local_job(diloco(10));
  job.communication->variants = {{ExchangeVariant::Kind::kBFloat16, 0, {4e6, 1, 11.0}}};
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_EQ(diagnosis.recommendations.size(), 2u);
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kOuterExchange);
  EXPECT_EQ(diagnosis.recommendations[1].cause, Cause::kSlowLink);
  EXPECT_NEAR(diagnosis.recommendations[1].regained_ms, 0.9, 1e-9);
}

// The rank that is slow between two exchanges delays the others only there.
TEST(Diagnosis, NamesASlowRankOfLocalSteps) {
  JobCosts job = local_job(local_sgd(10));
  for (std::size_t step = 0; step < 100; ++step) {
    job.ranks[1].steps[step][StepPhase::kBackward] += 3;
    for (RankCosts& rank : job.ranks)
      rank.steps[step][StepPhase::kExposedCommunication] =
          step % 10 == 9 ? (rank.rank == 0 ? 30 : 0.01) : 0;
  }
  const Diagnosis diagnosis = diagnose(job);
  EXPECT_NEAR(diagnosis.step_ms, 12.5, 0.01);
  EXPECT_NEAR(diagnosis.ranks[0].straggler_wait_ms, 3, 0.01);
  ASSERT_FALSE(diagnosis.recommendations.empty());
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kSlowRank);
  EXPECT_EQ(diagnosis.recommendations[0].rank, 1);
  EXPECT_NEAR(diagnosis.recommendations[0].regained_ms, 3, 0.01);
}

// Of the allgather of 4 ms, backward would hide all but the last of 5 buckets; the whole update
// takes 0.2 ms longer.
TEST(Diagnosis, RecommendsAWholeOptimizerIfItsExchangeIsHidden) {
  JobCosts job = made_job(2, 1, [](std::size_t, std::size_t) {
    return step_of(
        {{StepPhase::kForward, 4}, {StepPhase::kBackward, 9}, {StepPhase::kOptimizer, 4.2}});
  });
  job.is_sharded = true;
  job.communication = {.exchange = {.bytes = 4e6, .buckets = 5, .milliseconds = 3},
                       .latency_ms = 0.01,
                       .gather_ms = 4};
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_FALSE(diagnosis.recommendations.empty());
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kShardedUpdate);
  EXPECT_NEAR(diagnosis.recommendations[0].regained_ms, 1 + 4 - 7.0 / 5 - 0.2, 1e-9);
  job.is_sharded = false;
  for (const Recommendation& one : diagnose(job).recommendations)
    EXPECT_NE(one.cause, Cause::kShardedUpdate);
}

}  // namespace
}  // namespace horo::ops
