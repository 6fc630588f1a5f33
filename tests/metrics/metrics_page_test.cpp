#include "horo/metrics/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

namespace horo::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MetricsSnapshot some_picture() {
  MetricsSnapshot snapshot{
      .rank = {7, 2, "node\"a"}, .size = 4, .written = 1'770'000'000'500'000'000};
  snapshot.since_progress = 1'500'000'000;
  snapshot.operations = 31;
  snapshot.lost_lines = 2;
  snapshot.meter.own = 3'000'000'000;
  snapshot.meter.blocked = 1'000'000'000;
  snapshot.meter.phase_names = {"data", "forward"};
  snapshot.meter.phases[0] = 250'000'000;
  snapshot.meter.plans.push_back({{"g", "", 4}, {}, {}});
  snapshot.meter.plans.push_back({{"g", "{0, 2}", 2}, {}, {}});
  StepRecord step{.length = 2'000'000'000,
                  .blocked = 500'000'000,
                  .exposed = 400'000'000,
                  .exchange = 600'000'000,
                  .bytes = 4096};
  snapshot.meter.plans[0].sums.add(step);
  step.wire_bytes = 1024;
  snapshot.meter.plans[1].sums.add(step);
  snapshot.meter.plans[1].sums.add(step);
  for (int rank = 0; rank < 2; ++rank) {
    RankComparison& compared = snapshot.ranks.emplace_back();
    compared.rank = rank;
    compared.host = "node" + std::to_string(rank);
    compared.own = 1'000'000'000 * (rank + 1);
    compared.phases = {{"data", 1'000 * rank}};
    compared.delayed = 500'000'000 * rank;
    compared.phase = rank == 1 ? "data" : "";
    snapshot.skews.push_back({"g", "", rank, 8, 16'000'000 * rank, 3'000'000 * rank});
  }
  return snapshot;
}

TEST(MetricsPage, ShowsSnapshot) {
  const std::string page = metrics_page(some_picture());
  for (const char* sample : {
           R"(horo_running{rank="2",host="node\"a"} 1)",
           R"(horo_job_ranks{rank="2",host="node\"a"} 4)",
           R"(horo_own_seconds_total{rank="2",host="node\"a"} 3)",
           R"(horo_blocked_seconds_total{rank="2",host="node\"a"} 1)",
           R"(horo_operations_total{rank="2",host="node\"a"} 31)",
           R"(horo_since_progress_seconds{rank="2",host="node\"a"} 1.5)",
           R"(horo_paused{rank="2",host="node\"a"} 0)",
           R"(horo_lost_lines_total{rank="2",host="node\"a"} 2)",
           R"(horo_steps_total{rank="2",host="node\"a",plan="g"} 1)",
           R"(horo_steps_total{rank="2",host="node\"a",plan="g",process_set="{0, 2}"} 2)",
           R"(horo_step_own_seconds_total{rank="2",host="node\"a",plan="g"} 1.5)",
           R"(horo_step_exposed_seconds_total{rank="2",host="node\"a",plan="g"} 0.4)",
           R"(horo_exchange_seconds_total{rank="2",host="node\"a",plan="g"} 0.6)",
           R"(horo_exchanged_bytes_total{rank="2",host="node\"a",plan="g"} 4096)",
           R"(horo_wire_bytes_total{rank="2",host="node\"a",plan="g",process_set="{0, 2}"} 2048)",
           R"(horo_phase_seconds_total{rank="2",host="node\"a",phase="data"} 0.25)",
           R"(horo_rank_own_seconds_total{rank="1",host="node1"} 2)",
           R"(horo_rank_arrival_skew_seconds{rank="1",host="node1",plan="g"} 0.003)",
           R"(horo_rank_arrival_skew_seconds_total{rank="1",host="node1",plan="g"} 0.016)",
           R"(horo_rank_compared_steps_total{rank="0",host="node0",plan="g"} 8)",
           R"(horo_straggler_delay_seconds{rank="1",host="node1",phase="data"} 0.5)",
       })
    EXPECT_THAT(page, HasSubstr(std::string(sample) + "\n"));
  EXPECT_THAT(page, Not(HasSubstr(R"(horo_wire_bytes_total{rank="2",host="node\"a",plan="g"} )")));
}

TEST(MetricsPage, OmitsComparisonsOnOtherRanks) {
  MetricsSnapshot snapshot = some_picture();
  snapshot.ranks.clear();
  snapshot.skews.clear();
  snapshot.is_running = false;
  snapshot.is_paused = true;
  const std::string page = metrics_page(snapshot);
  EXPECT_THAT(page, Not(HasSubstr("horo_rank_")));
  EXPECT_THAT(page, Not(HasSubstr("horo_straggler")));
  EXPECT_THAT(page, HasSubstr(R"(horo_running{rank="2",host="node\"a"} 0)"));
  EXPECT_THAT(page, HasSubstr(R"(horo_paused{rank="2",host="node\"a"} 1)"));
}

// Requirements of the format: each family occurs once, with its heading before its samples, and no
// sample occurs twice.
TEST(MetricsPage, HasPrometheusFormat) {
  const std::regex sample(R"re(([a-z_]+)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})?) \S+)re");
  std::istringstream page(metrics_page(some_picture()));
  std::set<std::string> families, samples;
  std::string line, family;
  while (std::getline(page, line)) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family;
    } else if (line.starts_with("# TYPE ")) {
      const bool is_counter = line == "# TYPE " + family + " counter";
      EXPECT_TRUE(is_counter || line == "# TYPE " + family + " gauge") << line;
      EXPECT_EQ(is_counter, family.ends_with("_total")) << line;
    } else {
      std::smatch parts;
      ASSERT_TRUE(std::regex_match(line, parts, sample)) << line;
      EXPECT_EQ(parts[1], family);
      EXPECT_TRUE(samples.insert(parts[1].str() + parts[2].str()).second) << line;
    }
  }
  EXPECT_GT(samples.size(), 30u);
}

}  // namespace
}  // namespace horo::metrics
