#include "ops/train/bottleneck/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/train/bottleneck/made_costs.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;

/// The first recommendation; fails without one.
Recommendation first_of(const JobCosts& job) {
  const Diagnosis diagnosis = diagnose(job);
  EXPECT_FALSE(diagnosis.recommendations.empty()) << diagnosis.summary;
  return diagnosis.recommendations.empty() ? Recommendation{} : diagnosis.recommendations[0];
}

JobCosts job_with(std::size_t ranks, StepPhase phase, double milliseconds) {
  return made_job(ranks, 0.1, [=](std::size_t, std::size_t) {
    return usual_step({{phase, milliseconds}});
  });
}

CommunicationCosts exchange_of(double milliseconds, std::size_t buckets) {
  return {.exchange = {.bytes = 4e6, .buckets = buckets, .milliseconds = milliseconds},
          .latency_ms = 0.02,
          .bandwidth = 1e9};
}

TEST(Diagnosis, FindsNothingInAHealthyJob) {
  JobCosts job = made_job(4, 0.2, [](std::size_t rank, std::size_t step) {
    return usual_step({{StepPhase::kForward, 0.05 * static_cast<double>((rank + step) % 4)},
                       {StepPhase::kDataWait, 0.02}});
  });
  job.communication = exchange_of(0.5, 2);
  const Diagnosis diagnosis = diagnose(job);
  EXPECT_TRUE(diagnosis.recommendations.empty());
  EXPECT_THAT(diagnosis.summary, HasSubstr("no bottleneck: forward and backward take 9"));
}

TEST(Diagnosis, RecommendsWorkersForSlowDecoding) {
  JobCosts job = job_with(1, StepPhase::kDataWait, 6);
  job.ranks[0].loader = {.workers = 1, .reading_ms = 15.5, .reading_cpu_ms = 15};
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowDecode);
  EXPECT_EQ(one.remedy, "--workers 2");
  EXPECT_NEAR(one.regained_ms, 6, 0.1);
  EXPECT_THAT(one.sentence(), HasSubstr("data wait is 38 % of the step: decoding a batch takes "
                                        "15.5 ms on 1 thread of 4 cores; --workers 2 would save "
                                        "about 6 ms"));
}

TEST(Diagnosis, RecommendsAWorkerForLoadingOnTheTrainingThread) {
  JobCosts job = job_with(2, StepPhase::kDataWait, 4);
  for (RankCosts& rank : job.ranks)
    rank.loader = {.workers = 0, .reading_ms = 4, .reading_cpu_ms = 3.9};
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowDecode);
  EXPECT_EQ(one.remedy, "--workers 1");
  EXPECT_THAT(one.evidence, HasSubstr("on the training thread"));
}

TEST(Diagnosis, RecommendsCheaperDecodingWithoutFreeCores) {
  JobCosts job = job_with(1, StepPhase::kDataWait, 6);
  job.ranks[0].loader = {.workers = 1, .reading_ms = 15.5, .reading_cpu_ms = 15};
  job.ranks[0].process.cores = 2;
  job.ranks[0].process.cpu_seconds = 19.8;
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowDecode);
  EXPECT_THAT(one.remedy, HasSubstr("cheaper to decode"));
}

// Waiting for files needs no core.
TEST(Diagnosis, RecommendsWorkersForSlowFiles) {
  JobCosts job = job_with(1, StepPhase::kDataWait, 30);
  job.ranks[0].loader = {.workers = 2, .reading_ms = 79, .reading_cpu_ms = 2};
  job.ranks[0].process.idle_cores = 0;
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowReader);
  EXPECT_EQ(one.remedy, "--workers 10 --prefetch 11");
  EXPECT_NEAR(one.regained_ms, 30, 0.5);
  EXPECT_THAT(one.evidence, HasSubstr("97 % is waiting for files"));
}

TEST(Diagnosis, RecommendsPrefetchingForBursts) {
  JobCosts job = made_job(1, 0, [](std::size_t, std::size_t step) {
    return usual_step({{StepPhase::kDataWait, step % 10 == 0 ? 40.0 : 0.0}});
  });
  job.ranks[0].loader = {.workers = 1, .reading_ms = 8, .reading_cpu_ms = 8};
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kDataBursts);
  EXPECT_NEAR(one.regained_ms, 4, 0.1);
}

TEST(Diagnosis, NamesASlowRank) {
  const JobCosts job = made_job(4, 0.1, [](std::size_t rank, std::size_t) {
    return usual_step({{StepPhase::kBackward, rank == 2 ? 3.0 : 0.0}});
  });
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowRank);
  EXPECT_EQ(one.rank, 2);
  EXPECT_NEAR(one.regained_ms, 3, 0.05);
  EXPECT_THAT(one.evidence, HasSubstr("take 12 ms on rank 2 of host, 9 ms on others"));
}

TEST(Diagnosis, NamesARankThatDoesNotRun) {
  JobCosts job = made_job(2, 0.1, [](std::size_t rank, std::size_t step) {
    return usual_step({{StepPhase::kBackward, rank == 1 && step % 5 == 0 ? 30.0 : 0.0}});
  });
  job.ranks[1].process.suspended_seconds = 3.8;
  Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSuspendedRank);
  EXPECT_EQ(one.rank, 1);
  EXPECT_NEAR(one.regained_ms, 6, 0.1);
  EXPECT_THAT(one.evidence, HasSubstr("its process could not run 38 % of the time"));
  job.ranks[1].process.major_faults = 5000;
  EXPECT_THAT(first_of(job).evidence, HasSubstr("swapped out"));
  job.ranks[1].process.suspended_seconds = 0;
  job.ranks[1].process.waiting_seconds = 3.8;
  EXPECT_THAT(first_of(job).evidence, HasSubstr("waited 38 % of the time for a core"));
}

TEST(Diagnosis, FindsCoresThatAreBusy) {
  JobCosts job = made_job(2, 40, [](std::size_t, std::size_t) { return usual_step(); });
  job.communication = exchange_of(0.5, 2);
  for (RankCosts& rank : job.ranks) rank.process.waiting_seconds = 8;
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kBusyCores);
  EXPECT_NEAR(one.regained_ms, 0.8 * 49.5, 0.5);
}

TEST(Diagnosis, FindsImbalanceThatMovesBetweenRanks) {
  const JobCosts job = made_job(4, 0.1, [](std::size_t rank, std::size_t step) {
    return usual_step({{StepPhase::kForward, rank == step % 4 ? 4.0 : 0.0}});
  });
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kImbalance);
  EXPECT_EQ(one.rank, -1);
  EXPECT_NEAR(one.regained_ms, 3, 0.05);
}

TEST(Diagnosis, FindsARankWithMoreSamples) {
  JobCosts job = made_job(2, 0.1, [](std::size_t rank, std::size_t) {
    return usual_step({{StepPhase::kForward, rank == 0 ? 9.0 : 0.0}});
  });
  job.ranks[0].samples_per_step = 32;
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kImbalance);
  EXPECT_NEAR(one.regained_ms, 4.5, 0.05);
  EXPECT_THAT(one.evidence, HasSubstr("rank 0 has 32 samples per step"));
}

TEST(Diagnosis, RecommendsLargerBucketsIfTheyExchangeFaster) {
  JobCosts job = made_job(2, 8, [](std::size_t, std::size_t) { return usual_step(); });
  job.communication = exchange_of(14, 100);
  job.communication->variants = {
      {ExchangeVariant::Kind::kLargerBuckets, std::size_t{4} << 20, {4e6, 1, 2.0}},
      {ExchangeVariant::Kind::kBFloat16, 0, {4e6, 100, 13.0}}};
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSmallBuckets);
  EXPECT_EQ(one.remedy, "HORO_BUCKET_BYTES=4MiB");
  EXPECT_NEAR(one.regained_ms, 6, 0.1);
}

TEST(Diagnosis, RecommendsFewerBytesOnASlowLink) {
  JobCosts job = made_job(2, 30, [](std::size_t, std::size_t) { return usual_step(); });
  job.communication = exchange_of(36, 2);
  job.communication->variants = {{ExchangeVariant::Kind::kBFloat16, 0, {4e6, 2, 18.0}}};
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSlowLink);
  EXPECT_EQ(one.remedy, "--wire bfloat16");
  EXPECT_NEAR(one.regained_ms, 18, 0.1);  // of 36 - 6 ms, 18 - 6 ms stay
}

// Larger buckets come first, because they do not change results.
TEST(Diagnosis, RecommendsFewerBytesAfterLargerBuckets) {
  JobCosts job = made_job(2, 8, [](std::size_t, std::size_t) { return usual_step(); });
  job.communication = exchange_of(14, 100);
  job.communication->variants = {
      {ExchangeVariant::Kind::kLargerBuckets, std::size_t{4} << 20, {4e6, 1, 4.0}},
      {ExchangeVariant::Kind::kBFloat16, std::size_t{4} << 20, {4e6, 1, 2.0}}};
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_EQ(diagnosis.recommendations.size(), 2u);
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kSmallBuckets);
  EXPECT_EQ(diagnosis.recommendations[1].cause, Cause::kSlowLink);
  EXPECT_EQ(diagnosis.recommendations[1].remedy, "--wire bfloat16 and HORO_BUCKET_BYTES=4MiB");
}

// The writer of checkpoints takes the core of the training thread of rank 0.
TEST(Diagnosis, CountsTheWriterAsCostOfCheckpoints) {
  JobCosts job = made_job(2, 0.1, [](std::size_t rank, std::size_t) {
    return rank > 0 ? usual_step()
                    : usual_step({{StepPhase::kCheckpoint, 1}, {StepPhase::kForward, 5}});
  });
  job.ranks[0].process.waiting_seconds = 3.5;
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kCheckpoints);
  EXPECT_NEAR(one.regained_ms, 6, 0.2);
  EXPECT_THAT(one.evidence, HasSubstr("the writer of rank 0"));
}

TEST(Diagnosis, RecommendsALargerBatchIfMostWorkDoesNotDependOnIt) {
  JobCosts job = made_job(2, 3, [](std::size_t, std::size_t) {
    return step_of(
        {{StepPhase::kForward, 0.5}, {StepPhase::kBackward, 1}, {StepPhase::kOptimizer, 2}});
  });
  job.communication = exchange_of(3.5, 1);
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kSmallBatch);
  EXPECT_THAT(one.remedy, HasSubstr("--global-batch 1024"));
  EXPECT_NEAR(one.regained_ms, 5 * 31.0 / 32, 0.05);
}

TEST(Diagnosis, RecommendsFewerCheckpointsAndLogEntries) {
  Recommendation one = first_of(job_with(2, StepPhase::kCheckpoint, 5));
  EXPECT_EQ(one.cause, Cause::kCheckpoints);
  EXPECT_EQ(one.remedy, "--checkpoint-every 53");
  EXPECT_NEAR(one.regained_ms, 5, 0.15);
  one = first_of(job_with(2, StepPhase::kLogging, 2));
  EXPECT_EQ(one.cause, Cause::kLogging);
  EXPECT_THAT(one.evidence, HasSubstr("2 ms in every step"));
  EXPECT_NEAR(one.regained_ms, 1.9, 0.01);
}

// Log entries on one rank delay all ranks.
TEST(Diagnosis, FindsLogEntriesOfOneRank) {
  const JobCosts job = made_job(4, 0.1, [](std::size_t rank, std::size_t step) {
    return usual_step({{StepPhase::kLogging, rank == 0 && step % 3 == 0 ? 9.0 : 0.0}});
  });
  const Recommendation one = first_of(job);
  EXPECT_EQ(one.cause, Cause::kLogging);
  EXPECT_THAT(one.evidence, HasSubstr("9 ms in every 3 steps"));
}

TEST(Diagnosis, OrdersCausesAndStatesThatThereIsNoSingleOne) {
  JobCosts job = made_job(1, 0, [](std::size_t, std::size_t) {
    return usual_step(
        {{StepPhase::kLogging, 2}, {StepPhase::kCheckpoint, 1.5}, {StepPhase::kDataWait, 1.8}});
  });
  job.ranks[0].loader = {.workers = 1, .reading_ms = 14.8, .reading_cpu_ms = 1};
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_EQ(diagnosis.recommendations.size(), 3u);
  EXPECT_EQ(diagnosis.recommendations[0].cause, Cause::kLogging);
  EXPECT_EQ(diagnosis.recommendations[1].cause, Cause::kSlowReader);
  EXPECT_EQ(diagnosis.recommendations[2].cause, Cause::kCheckpoints);
  EXPECT_EQ(diagnosis.summary, "no single cause: logging, slow reader and others");
}

TEST(Diagnosis, HasNoStepsWithoutSteps) {
  EXPECT_EQ(diagnose(JobCosts{}).summary, "no step was measured");
}

}  // namespace
}  // namespace horo::ops
