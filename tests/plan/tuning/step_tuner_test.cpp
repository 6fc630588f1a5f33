#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "horo/plan/tuning/plan_tuning.h"

namespace horo::plan {
namespace {

const Axis kBuckets{"bucket_bytes", {1, 2, 4, 8, 16, 32}, 2};
const Axis kSegments{"ring_segment_bytes", {64, 128, 256, 512}, 1};

// The time of a rank's step. Even and odd ranks prefer different choices, and the slowest rank
// decides.
double cost(int rank, const Choice& choice) {
  const double bucket = 10 * std::abs(static_cast<double>(choice[0]) - 4);
  const auto segment = static_cast<double>(choice[1]);
  return 1 + (rank % 2 == 0 ? bucket : segment);
}

struct Outcome {
  std::vector<Choice> tried;
  Choice found;
  int steps = 0;
  bool has_improved = false;
};

// Runs a search on threads with simulated clocks.
std::vector<Outcome> tune(int ranks) {
  collectives::InProcessJob job(ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto transport = job.transport(rank);
        const auto peers = transport->make_point_to_point();
        collectives::RingCollectives ring(*peers, 1024);
        Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        double now = 1000 * rank;
        StepTuner tuner("net", {kBuckets, kSegments}, [&] { return now; });
        for (; !tuner.search().is_finished(); ++outcome.steps) {
          tuner.begin_step();
          outcome.tried.push_back(tuner.choice());
          now += cost(rank, tuner.choice());
          EXPECT_EQ(tuner.agree(ring), outcome.steps > 0);
          const bool is_another = tuner.end_step(rank, true);
          EXPECT_EQ(is_another, tuner.choice() != outcome.tried.back());
          // The time of a change is not part of a step.
          if (is_another) now += 100;
        }
        outcome.found = tuner.choice();
        outcome.has_improved = tuner.search().has_improved();
      });
  }
  return outcomes;
}

TEST(StepTuner, AllRanksFollowSlowestRank) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const std::vector<Outcome> outcomes = tune(ranks);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.tried, outcomes[0].tried) << ranks;
      EXPECT_EQ(outcome.found, outcomes[0].found) << ranks;
      EXPECT_LE(outcome.steps, 60);
    }
    // With one rank, no rank depends on the segment size.
    EXPECT_EQ(outcomes[0].found, (Choice{4, ranks == 1 ? 1u : 0u})) << ranks;
    EXPECT_TRUE(outcomes[0].has_improved) << ranks;
  }
}

TEST(StepTuner, IsReproducible) {
  const std::vector<Outcome> first = tune(3);
  const std::vector<Outcome> second = tune(3);
  EXPECT_EQ(first[0].tried, second[0].tried);
}

TEST(StepTuner, IgnoresStepsWithoutExchange) {
  collectives::InProcessJob job(1);
  const auto transport = job.transport(0);
  const auto peers = transport->make_point_to_point();
  collectives::RingCollectives ring(*peers, 1024);
  StepTuner tuner("net", {kBuckets}, [] { return 1.0; });
  const int before = tuner.search().steps();
  int agreements = 0;
  for (int step = 0; step < 5; ++step) {
    tuner.begin_step();
    agreements += tuner.agree(ring) ? 1 : 0;
    tuner.end_step(0, step % 2 == 1);
  }
  EXPECT_EQ(agreements, 2);
  EXPECT_EQ(tuner.search().steps(), before + 2);
}

TEST(StepTuner, DescribesChoiceInFileFormat) {
  EXPECT_EQ(describe_choice({kBuckets, kSegments}, {5, 0}),
            "bucket_bytes=32 ring_segment_bytes=64");
}

}  // namespace
}  // namespace horo::plan
