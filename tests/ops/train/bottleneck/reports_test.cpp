#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "horo/base/error.h"
#include "ops/train/bottleneck/cost_collection.h"
#include "ops/train/bottleneck/report_html.h"
#include "ops/train/bottleneck/report_json.h"
#include "ops/train/bottleneck/report_text.h"
#include "tests/ops/train/bottleneck/made_costs.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Twelve ranks with three causes.
JobBottlenecks busy_job() {
  JobCosts job = made_job(12, 2, [](std::size_t rank, std::size_t) {
    return usual_step({{StepPhase::kDataWait, 2},
                       {StepPhase::kLogging, rank == 0 ? 1.5 : 0.0},
                       {StepPhase::kCheckpoint, 1.6}});
  });
  for (RankCosts& rank : job.ranks)
    rank.loader = {.workers = 1, .reading_ms = 16, .reading_cpu_ms = 1};
  job.ranks[3].host = "<host & \"co\">";
  job.communication = {.exchange = {.bytes = 4e6, .buckets = 2, .milliseconds = 4},
                       .latency_ms = 0.1,
                       .bandwidth = 2e9,
                       .variants = {{ExchangeVariant::Kind::kBFloat16, 0, {4e6, 2, 3.5}}}};
  Diagnosis diagnosis = diagnose(job);
  return {std::move(job), std::move(diagnosis)};
}

TEST(ReportText, HasAtMost25Lines) {
  const JobBottlenecks job = busy_job();
  ASSERT_EQ(job.diagnosis.recommendations.size(), 3u);
  const std::string text = report_text(job.costs, job.diagnosis);
  EXPECT_LE(std::ranges::count(text, '\n'), 25);
  EXPECT_THAT(text, HasSubstr("no single cause: "));
  EXPECT_THAT(text, HasSubstr("  3. "));
  EXPECT_THAT(text, HasSubstr("24 ranks"));
}

TEST(ReportText, WorksWithoutSteps) {
  EXPECT_EQ(report_text({}, diagnose({})), "bottleneck report: no step was measured\n");
}

TEST(ReportJson, HasEveryPart) {
  const JobBottlenecks job = busy_job();
  const auto json = nlohmann::json::parse(to_json(job));
  EXPECT_EQ(json.at("steps"), 100);
  EXPECT_EQ(json.at("ranks").size(), 12u);
  EXPECT_EQ(json.at("ranks").at(3).at("host"), "<host & \"co\">");
  EXPECT_NEAR(json.at("ranks").at(5).at("ms").at("data_wait"), 2, 1e-9);
  EXPECT_NEAR(json.at("ranks").at(5).at("ms").at("straggler_wait"), 1.5, 0.05);
  EXPECT_DOUBLE_EQ(json.at("ranks").at(5).at("cpu_share"), 0.5);
  EXPECT_EQ(json.at("communication").at("variants").at(0).at("wire"), "bfloat16");
  EXPECT_EQ(json.at("model").at("predictions").at(2).at("ranks"), 96);
  EXPECT_EQ(json.at("recommendations").size(), 3u);
  EXPECT_EQ(json.at("recommendations").at(0).at("cause"), "slow reader");
}

TEST(ReportHtml, IsSelfContainedAndEscaped) {
  const std::string html = report_html(busy_job());
  EXPECT_THAT(html, HasSubstr("&lt;host &amp; &quot;co&quot;&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<host")));
  for (const char* reference : {"http", "src=", "href=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  EXPECT_THAT(html, HasSubstr("rank 11: straggler wait 1.49 ms"));
  EXPECT_THAT(html, HasSubstr("<polyline"));
  EXPECT_THAT(html, HasSubstr("slow reader"));
}

TEST(ReportHtml, WorksForOneRankWithoutSteps) {
  EXPECT_THAT(report_html({{}, diagnose({})}), HasSubstr("no step was measured"));
}

TEST(ReportHtml, NamesAFileThatCannotBeWritten) {
  try {
    write_html(busy_job(), "/nonexistent/report.html");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/report.html"));
  }
}

TEST(CostCollection, PacksEveryField) {
  RankCosts costs = busy_job().costs.ranks[3];
  costs.node = 2;
  costs.process = {1.5, 2.5, 0.25, 0.125, 3.5, 0.75, 7, 9};
  costs.memory_bandwidth = 1e10;
  costs.device_busy = 0.5;
  const RankCosts copy = unpack(pack(costs));
  EXPECT_EQ(pack(copy), pack(costs));
  EXPECT_EQ(copy.rank, 3);
  EXPECT_EQ(copy.node, 2);
  EXPECT_EQ(copy.host, costs.host);
  EXPECT_EQ(copy.samples_per_step, 16);
  EXPECT_EQ(copy.loader.reading_cpu_ms, 1);
  EXPECT_EQ(copy.process.idle_cores, 0.75);
  EXPECT_EQ(copy.process.involuntary_switches, 9u);
  EXPECT_EQ(copy.device_busy, 0.5);
  EXPECT_EQ(copy.steps.size(), 100u);
  EXPECT_EQ(copy.steps[7].phase_ms, costs.steps[7].phase_ms);
  EXPECT_FALSE(unpack(pack(RankCosts{})).device_busy);
}

TEST(CostCollection, RejectsOtherBytes) {
  const std::vector<std::byte> packed = pack(busy_job().costs.ranks[0]);
  EXPECT_THROW(unpack(std::span(packed).first(packed.size() / 2)), Error);
  EXPECT_THROW(unpack({}), Error);
  EXPECT_THROW(unpack(std::vector<std::byte>(4, std::byte{1})), Error);
}

TEST(CostCollection, ComparesTheLatestStepsWithoutTheFirst) {
  StepTimer host, device;
  EXPECT_TRUE(compared_steps(host, device, 1).empty());
  for (int step = 0; step < 600; ++step)
    host.add(step_of({{StepPhase::kForward, static_cast<double>(step)}}));
  const auto steps = compared_steps(host, device, 1);
  EXPECT_EQ(steps.size(), kComparedSteps);
  EXPECT_EQ(steps.back()[StepPhase::kForward], 599);
  EXPECT_EQ(compared_steps(host, device, 590).size(), 10u);
  EXPECT_EQ(compared_steps(host, device, 700).size(), 1u);
}

// The host waits 6 ms for data, but the device needs 7 ms of the 10 ms of a step.
TEST(CostCollection, CountsWaitsOfTheHostThatLeaveADeviceWithoutWork) {
  StepTimer host, device;
  for (int step = 0; step < 3; ++step)
    host.add(step_of({{StepPhase::kDataWait, 6}, {StepPhase::kForward, 4}}));
  for (int step = 0; step < 2; ++step)
    device.add(step_of({{StepPhase::kForward, 2}, {StepPhase::kBackward, 5}}));
  const auto steps = compared_steps(host, device, 0);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_DOUBLE_EQ(steps[1][StepPhase::kDataWait], 3);
  EXPECT_DOUBLE_EQ(steps[1][StepPhase::kBackward], 5);
  EXPECT_DOUBLE_EQ(steps[1].total_ms, 10);
}

TEST(ProcessMeter, MeasuresThisProcess) {
  const ProcessMeter meter;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  while (std::chrono::steady_clock::now() < end) continue;
  const ProcessCosts costs = meter.costs();
  EXPECT_GE(costs.seconds, 0.03);
  EXPECT_GT(costs.cpu_seconds, 0);
  EXPECT_GT(costs.cores, 0);
  EXPECT_GE(costs.waiting_seconds, 0);
  EXPECT_LE(costs.suspended_seconds, costs.seconds);
}

}  // namespace
}  // namespace horo::ops
