#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "horo/horo.h"
#include "horo/runtime/runtime.h"
#include "horo/testing.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

using observe::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::Not;

testing::RunOptions measured_in(const std::filesystem::path& directory, int ranks_per_node = 0) {
  return {.environment = {"HORO_METRICS=" + directory.string(), "HORO_LOG_LEVEL=off",
                          fmt::format("HORO_RANKS_PER_NODE={}", ranks_per_node)}};
}

std::vector<nlohmann::json> lines_of(const TemporaryDirectory& directory, int rank) {
  std::ifstream file(directory.file(fmt::format("rank.{}.jsonl", rank)));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string page_of(const TemporaryDirectory& directory, int rank) {
  std::ostringstream text;
  text << std::ifstream(directory.file(fmt::format("rank.{}.prom", rank))).rdbuf();
  return text.str();
}

// Returns the value of the first sample of the family with that label, or NaN if there is none.
double sample(const std::string& page, const std::string& family, const std::string& label) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(family + "{") && line.find(label) != std::string::npos)
      return std::stod(line.substr(line.rfind(' ')));
  return std::nan("");
}

void train(Context& ctx, int steps, GradientSyncOptions options = {.name = "g"}) {
  std::vector<float> large(64 * 1024), small(3);
  const std::vector<NamedTensor> gradients = {{"large", TensorView(large)},
                                              {"small", TensorView(small)}};
  options.bucket_bytes = 1024;
  GradientSync sync(ctx, gradients, options);
  for (int step = 0; step < steps; ++step) {
    {
      const TraceScope phase = ctx.phase("backward");
      for (std::size_t i = 0; i < large.size(); ++i)
        large[i] = static_cast<float>(ctx.rank() + step) + static_cast<float>(i % 7);
      sync.ready(1);
      sync.ready(0);
    }
    sync.wait();
    EXPECT_EQ(large[3], static_cast<float>(step) + static_cast<float>(ctx.size() - 1) / 2 + 3);
  }
}

TEST(MetricsRanks, WritesLineForEveryStepOfEveryRank) {
  for (const auto& [ranks, ranks_per_node] : {std::pair{1, 0}, {2, 0}, {3, 1}, {4, 2}}) {
    const TemporaryDirectory directory;
    testing::run_ranks(
        ranks, [](Context& ctx) { train(ctx, 20); }, measured_in(directory.path(), ranks_per_node));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto lines = lines_of(directory, rank);
      ASSERT_EQ(lines.size(), 20u);
      double before = 0;
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto& line = lines[i];
        EXPECT_EQ(line["step"], i);
        EXPECT_EQ(line["rank"], rank);
        EXPECT_EQ(line["plan"], "g");
        EXPECT_EQ(line["job"], lines[0]["job"]);
        EXPECT_EQ(line["buckets"], 2);
        EXPECT_EQ(line["bytes"], 4 * (64 * 1024 + 3));
        EXPECT_GT(line["time"], before);
        before = line["time"];
        const double own = line["own_seconds"], blocked = line["blocked_seconds"];
        EXPECT_NEAR(own + blocked, line["step_seconds"], 1e-8);
        EXPECT_GE(own, 0);
        EXPECT_LE(line["exposed_seconds"], blocked + 1e-8);
        EXPECT_GT(line["exchange_seconds"], 0);
        EXPECT_GT(line["phases"]["backward"], 0);
        EXPECT_NEAR(line["busbw"], static_cast<double>(line["algbw"]) * 2 * (ranks - 1) / ranks, 2);
      }
      const std::string page = page_of(directory, rank);
      EXPECT_EQ(sample(page, "horo_steps_total", "plan=\"g\""), 20);
      EXPECT_EQ(sample(page, "horo_job_ranks", "rank="), ranks);
      EXPECT_EQ(sample(page, "horo_running", "rank="), 0) << "it has left";
      EXPECT_EQ(sample(page, "horo_lost_lines_total", "rank="), 0);
      EXPECT_GT(sample(page, "horo_phase_seconds_total", "phase=\"backward\""), 0);
    }
  }
}

TEST(MetricsRanks, ShutdownWritesLastInterval) {
  for (const int ranks : {1, 2}) {
    const TemporaryDirectory directory;
    testing::run_ranks(
        ranks,
        [&](Context& ctx) {
          train(ctx, 3);
          ctx.shutdown();
          EXPECT_EQ(lines_of(directory, ctx.rank()).size(), 3u);
          EXPECT_EQ(sample(page_of(directory, ctx.rank()), "horo_steps_total", "plan=\"g\""), 3);
        },
        measured_in(directory.path()));
  }
}

TEST(MetricsRanks, StepWithoutDataExchangesNothing) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> gradient(1000, 1.0f);
        const std::vector<NamedTensor> gradients = {{"a", TensorView(gradient)}};
        GradientSync sync(ctx, gradients, {.name = "g", .weighted = true});
        for (const double weight : {1.0, 0.0, 2.0}) {
          sync.set_weight(weight);
          sync.exchange();
        }
      },
      measured_in(directory.path()));
  const auto lines = lines_of(directory, 1);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["bytes"], 4000);
  EXPECT_EQ(lines[1]["bytes"], 0);
  EXPECT_EQ(lines[1]["algbw"], 0);
  EXPECT_EQ(lines[2]["bytes"], 4000);
}

TEST(MetricsRanks, CountsWireBytesWhileTuningChangesAlgorithm) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        train(ctx, 80, {.name = "g", .wire = DataType::kBFloat16, .autotune = true});
      },
      measured_in(directory.path(), 1));
  const auto lines = lines_of(directory, 0);
  ASSERT_EQ(lines.size(), 80u);
  for (const auto& line : lines) {
    EXPECT_GT(line["wire_bytes"], 0);
    EXPECT_LE(line["wire_bytes"], line["bytes"]) << line["step"];
  }
}

TEST(MetricsRanks, CountsNamedOperationsAndTheirWaits) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        float x = 1;
        { train(ctx, 2, {.name = "first"}); }  // its buckets do not count as named operations
        for (int i = 0; i < 7; ++i) ctx.allreduce(TensorView(&x, {1}), {.name = "x"});
        const Handle handle = ctx.allreduce_async(TensorView(&x, {1}), {.name = "y"});
        if (ctx.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        handle.wait();
        if (ctx.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ctx.barrier({.name = "z"});
      },
      measured_in(directory.path()));
  for (int rank = 0; rank < 2; ++rank) {
    const std::string page = page_of(directory, rank);
    // The plan's registration and the shutdown are operations too.
    EXPECT_GE(sample(page, "horo_operations_total", "rank="), 7 + 2 + 1);
    EXPECT_LE(sample(page, "horo_operations_total", "rank="), 7 + 2 + 3);
  }
  EXPECT_GE(sample(page_of(directory, 0), "horo_blocked_seconds_total", "rank="), 0.025);
}

TEST(MetricsRanks, WaitForPlanUpdateIsNotOwnTime) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> x(100);
        const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
        GradientSync sync(ctx, gradients, {.name = "g"});
        if (ctx.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        sync.update(gradients);
      },
      measured_in(directory.path()));
  EXPECT_GE(sample(page_of(directory, 0), "horo_blocked_seconds_total", "rank="), 0.08);
}

TEST(MetricsRanks, CompressedStepsReportSentBytes) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> x(64 * 64);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
        const std::vector<NamedTensor> gradients = {{"x", TensorView(x.data(), {64, 64})}};
        GradientSync sync(
            ctx, gradients,
            {.name = "small", .compression = {.kind = Compression::Kind::kPowerSgd, .rank = 1}});
        for (int step = 0; step < 3; ++step) sync.exchange();
      },
      measured_in(directory.path()));
  for (const auto& line : lines_of(directory, 1)) {
    ASSERT_TRUE(line.contains("wire_bytes"));
    EXPECT_GT(line["wire_bytes"], 0);
    EXPECT_LT(line["wire_bytes"], line["bytes"]);
  }
  EXPECT_GT(sample(page_of(directory, 1), "horo_wire_bytes_total", "plan=\"small\""), 0);
}

TEST(MetricsRanks, SeparatesPlansOfProcessSets) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      3,
      [](Context& ctx) {
        ProcessSet evens = ctx.new_process_set({0, 2});
        if (ctx.rank() != 1) train(evens, 4);
        train(ctx, 3);
      },
      measured_in(directory.path()));
  EXPECT_EQ(lines_of(directory, 0).size(), 7u);
  EXPECT_EQ(lines_of(directory, 1).size(), 3u);
  EXPECT_EQ(lines_of(directory, 2)[0]["process_set"], "{0, 2}");
  EXPECT_EQ(sample(page_of(directory, 2), "horo_steps_total", "process_set=\"{0, 2}\""), 4);
}

// Rank 0 receives the measurements of all ranks while they run, and names the slow rank and its
// phase.
TEST(MetricsRanks, RankZeroBlamesSlowRank) {
  for (const int ranks_per_node : {0, 2}) {
    const TemporaryDirectory directory;
    auto options = measured_in(directory.path(), ranks_per_node);
    options.environment.push_back("HORO_STALL_WARNING=1s");
    testing::run_ranks(
        4,
        [](Context& ctx) {
          std::vector<float> x(100);
          const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
          GradientSync sync(ctx, gradients, {.name = "g"});
          for (int step = 0; step < 120; ++step) {
            {
              const TraceScope phase = ctx.phase("data");
              std::this_thread::sleep_for(std::chrono::milliseconds(ctx.rank() == 2 ? 20 : 1));
            }
            sync.exchange();
          }
        },
        options);
    const std::string page = page_of(directory, 0);
    const auto of = [&](const char* family, int rank) {
      return sample(page, family, fmt::format("rank=\"{}\"", rank));
    };
    ASSERT_GT(of("horo_rank_compared_steps_total", 2), 20) << page;
    for (const int rank : {0, 1, 3}) {
      EXPECT_GT(of("horo_rank_arrival_skew_seconds_total", 2),
                of("horo_rank_arrival_skew_seconds_total", rank));
      EXPECT_GT(of("horo_rank_last_steps_total", 2), of("horo_rank_last_steps_total", rank));
      EXPECT_GT(of("horo_rank_own_seconds_total", 2), of("horo_rank_own_seconds_total", rank));
      EXPECT_GT(of("horo_rank_blocked_seconds_total", rank),
                of("horo_rank_blocked_seconds_total", 2));
    }
    EXPECT_THAT(page, HasSubstr(R"(horo_straggler_delay_seconds{rank="2",)"));
    EXPECT_GT(sample(page, "horo_straggler_delay_seconds", "phase=\"data\""), 0) << page;
    EXPECT_THAT(page_of(directory, 1), Not(HasSubstr("horo_rank_")));
  }
}

TEST(MetricsRanks, WritesNothingWithoutSetting) {
  testing::run_ranks(2, [](Context& ctx) {
    EXPECT_EQ(ctx.runtime()->meter(), nullptr);
    train(ctx, 2);
  });
}

TEST(MetricsRanks, RejectsUnwritableDirectoryOnAllRanks) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("file")) << "x";
  std::filesystem::create_directory(directory.file("rank.1.jsonl"));
  const auto text_of = [](int ranks, const std::filesystem::path& slot) -> std::string {
    try {
      testing::run_ranks(
          ranks, [](Context&) { FAIL() << "it came up"; }, measured_in(slot));
      return "no error";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  for (const int ranks : {1, 2, 4})
    EXPECT_THAT(text_of(ranks, directory.file("file")),
                HasSubstr("HORO_METRICS: rank 0 (host thread-node-0) cannot write"));
  EXPECT_THAT(text_of(3, directory.path()),
              HasSubstr("HORO_METRICS: rank 1 (host thread-node-0) cannot"))
      << "the others could";
}

}  // namespace
}  // namespace horo
