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

/// The same job on devices, of which one is hot, with steps that could be graphs.
JobBottlenecks busy_devices() {
  JobBottlenecks job = busy_job();
  job.costs.is_on_device = job.costs.can_be_graph = true;
  job.costs.communication.reset();
  job.costs.why_unmeasured = "the phases of steps that run as a graph are unknown";
  for (RankCosts& rank : job.costs.ranks) {
    rank.device = DeviceCosts{.busy = 0.75,
                              .memory_used = std::uint64_t{3} << 30,
                              .memory_total = std::uint64_t{16} << 30};
    rank.launches = LaunchCosts{.host_ms = 9, .caught_up = 1};
  }
  job.costs.ranks[3].device->hot = 0.8;
  job.diagnosis = diagnose(job.costs);
  return job;
}

TEST(ReportText, HasTheUseOfDevices) {
  JobBottlenecks job = busy_devices();
  std::string text = report_text(job.costs, job.diagnosis);
  EXPECT_LE(std::ranges::count(text, '\n'), 25);
  EXPECT_THAT(text, HasSubstr("CPU    device\n"));
  EXPECT_THAT(text, HasSubstr("      75 %\n"));
  EXPECT_THAT(text, HasSubstr("  device memory: at most 3 GiB of 16 GiB in use, on rank 0\n"));
  EXPECT_THAT(text, HasSubstr("  no model for more ranks: the phases of steps"));
  EXPECT_THAT(text,
              HasSubstr("the clock of the device of rank 3 on <host & \"co\"> was lowered 80 % "
                        "of the time because of its temperature\n"));
  for (RankCosts& rank : job.costs.ranks) rank.device.reset();
  text = report_text(job.costs, job.diagnosis);
  EXPECT_THAT(text, Not(HasSubstr("CPU    device")));
  EXPECT_THAT(text, Not(HasSubstr("device memory")));
}

TEST(ReportJson, HasTheUseOfDevices) {
  const auto json = nlohmann::json::parse(to_json(busy_devices()));
  const auto& rank = json.at("ranks").at(3);
  EXPECT_EQ(rank.at("device_busy"), 0.75);
  EXPECT_EQ(rank.at("device_hot"), 0.8);
  EXPECT_EQ(rank.at("device_memory_used"), std::uint64_t{3} << 30);
  EXPECT_EQ(rank.at("launches").at("host_ms"), 9);
  EXPECT_EQ(json.at("no_model"), "the phases of steps that run as a graph are unknown");
  EXPECT_EQ(json.at("notes").size(), 1u);
  EXPECT_FALSE(json.contains("model"));
  EXPECT_FALSE(
      nlohmann::json::parse(to_json(busy_job())).at("ranks").at(3).contains("device_busy"));
}

TEST(ReportHtml, HasTheUseOfDevices) {
  const std::string html = report_html(busy_devices());
  EXPECT_THAT(html, HasSubstr("<td>75 %</td><td>3 GiB of 16 GiB</td><td>80 %</td><td>0 %</td>"));
  EXPECT_THAT(html, HasSubstr("There is no model for more ranks: the phases of steps"));
  EXPECT_THAT(html, HasSubstr("of rank 3 on &lt;host"));
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
  costs.device = DeviceCosts{0.5, 0.25, 0.125, 3, 7};
  costs.launches = LaunchCosts{2.5, 0.75};
  const RankCosts copy = unpack(pack(costs));
  EXPECT_EQ(pack(copy), pack(costs));
  EXPECT_EQ(copy.rank, 3);
  EXPECT_EQ(copy.node, 2);
  EXPECT_EQ(copy.host, costs.host);
  EXPECT_EQ(copy.samples_per_step, 16);
  EXPECT_EQ(copy.loader.reading_cpu_ms, 1);
  EXPECT_EQ(copy.process.idle_cores, 0.75);
  EXPECT_EQ(copy.process.involuntary_switches, 9u);
  EXPECT_EQ(copy.device->busy, 0.5);
  EXPECT_EQ(copy.device->memory_total, 7u);
  EXPECT_EQ(copy.launches->caught_up, 0.75);
  EXPECT_EQ(copy.steps.size(), 100u);
  EXPECT_EQ(copy.steps[7].phase_ms, costs.steps[7].phase_ms);
  EXPECT_FALSE(unpack(pack(RankCosts{})).device);
  EXPECT_FALSE(unpack(pack(RankCosts{})).launches);
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
