#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

using observe::FlightEvent;
using observe::FlightLog;
using observe::TemporaryDirectory;
using ::testing::HasSubstr;

testing::RunOptions recorded_in(const TemporaryDirectory& directory,
                                const std::string& ranks_per_node = "0") {
  return {.environment = {"HORO_FLIGHT_DIR=" + directory.path().string(),
                          "HORO_RANKS_PER_NODE=" + ranks_per_node, "HORO_LOG_LEVEL=off"}};
}

std::vector<FlightLog> logs_of(const TemporaryDirectory& directory) {
  std::vector<FlightLog> logs;
  for (const auto& file : observe::flight_files(directory.path()))
    logs.push_back(observe::read_flight(file.string()));
  return logs;
}

std::vector<FlightEvent> events_of_kind(const FlightLog& log, const std::string& kind) {
  std::vector<FlightEvent> events;
  for (const FlightEvent& event : log.finished_events)
    if (event.kind == kind) events.push_back(event);
  return events;
}

TEST(Flight, RecordsOperationTimesOfEveryRank) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      3,
      [](Context& ctx) {
        for (int i = 0; i < 4; ++i) {
          const TraceScope phase = ctx.phase("step");
          std::vector<float> x(17 + static_cast<std::size_t>(i), static_cast<float>(ctx.rank()));
          ctx.allreduce(TensorView(x), {.name = fmt::format("x{}", i), .op = ReduceOp::kSum});
        }
        ctx.barrier({.name = "done"});
      },
      recorded_in(directory));
  const auto logs = logs_of(directory);
  ASSERT_EQ(logs.size(), 3u);
  for (const FlightLog& log : logs) {
    EXPECT_EQ(log.job, logs[0].job);
    EXPECT_EQ(log.size, 3);
    EXPECT_EQ(log.state, observe::FlightState::kEnded);
    EXPECT_TRUE(log.open_events.empty());
    const auto reduced = events_of_kind(log, "allreduce");
    ASSERT_EQ(reduced.size(), 4u);
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      EXPECT_EQ(reduced[i].name, fmt::format("x{}", i));
      EXPECT_EQ(reduced[i].bytes, 4 * (17 + i));
      EXPECT_EQ(reduced[i].op, static_cast<std::uint8_t>(ReduceOp::kSum));
      EXPECT_GE(reduced[i].submitted, log.begun);
      EXPECT_LE(reduced[i].submitted, reduced[i].agreed);
      EXPECT_LE(reduced[i].agreed, reduced[i].started);
      EXPECT_LE(reduced[i].started, reduced[i].ended);
    }
    EXPECT_EQ(events_of_kind(log, "barrier").size(), 1u);
    EXPECT_EQ(events_of_kind(log, "phase").size(), 4u);
  }
}

TEST(Flight, RecordsBucketsAndProgressOfPlan) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> large(64 * 1024, 1.0f), small(3, 2.0f);
        const std::vector<NamedTensor> gradients = {{"large", TensorView(large)},
                                                    {"small", TensorView(small)}};
        GradientSync sync(ctx, gradients, {.name = "g", .bucket_bytes = 1024});
        for (int step = 0; step < 3; ++step) {
          sync.ready(1);
          sync.ready(0);
          sync.wait();
        }
      },
      recorded_in(directory));
  for (const FlightLog& log : logs_of(directory)) {
    std::size_t large = 0;
    for (const FlightEvent& event : events_of_kind(log, "bucket")) {
      EXPECT_THAT(event.name, HasSubstr("g/bucket "));
      if (event.bytes == 4 * 64 * 1024) ++large;
      EXPECT_LE(event.submitted, event.started);
      EXPECT_LE(event.started, event.ended);
    }
    EXPECT_EQ(large, 3u);
  }
}

TEST(Flight, RecordsWaitForPlanThread) {
  const TemporaryDirectory directory;
  const auto log_of_rank_0 = [&] {
    const auto logs = logs_of(directory);
    return *std::ranges::find(logs, 0, &FlightLog::rank);
  };
  testing::run_ranks(
      2,
      [&](Context& ctx) {
        std::vector<float> x(64 * 1024, 1.0f);
        const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
        GradientSync sync(ctx, gradients, {.name = "net"});
        if (ctx.rank() == 0) {
          sync.ready(0);
          while (!log_of_rank_0().plans.at(0).progress.is_exchanging) std::this_thread::yield();
          ctx.barrier();
        } else {
          ctx.barrier();
          // Rank 0 waits by then.
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          sync.ready(0);
        }
        sync.wait();
      },
      recorded_in(directory));
  const FlightLog log = log_of_rank_0();
  const auto waits = events_of_kind(log, observe::kWaitKind);
  const auto buckets = events_of_kind(log, "bucket");
  ASSERT_EQ(waits.size(), 1u);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(waits[0].name, "net");
  EXPECT_EQ(waits[0].lane, observe::kProgramLane);
  EXPECT_GT(waits[0].started, buckets[0].started);
  EXPECT_GE(waits[0].ended, buckets[0].ended);
}

TEST(Flight, DistinguishesConcurrentPlansOfOneName) {
  for (const char* per_node : {"0", "1"}) {
    const TemporaryDirectory directory;
    testing::run_ranks(
        3,
        [](Context& ctx) {
          std::vector<float> x(64 * 1024, 1.0f), y(32 * 1024, 2.0f);
          const std::vector<NamedTensor> of_x = {{"x", TensorView(x)}};
          const std::vector<NamedTensor> of_y = {{"y", TensorView(y)}};
          std::optional<GradientSync> first(std::in_place, ctx, of_x,
                                            GradientSyncOptions{.name = "net"});
          GradientSync second(ctx, of_y, {.name = "net"});
          first->exchange();
          second.exchange();
          second.update(of_y);
          second.exchange();
          // Rank 1 releases the first plan before it creates the third; the other ranks release it
          // afterwards.
          if (ctx.rank() == 1) first.reset();
          GradientSync third(ctx, of_x, {.name = "net"});
          first.reset();
          third.exchange();
          EXPECT_EQ(third.unused().size(), 0u);
        },
        recorded_in(directory, per_node));
    for (const FlightLog& log : logs_of(directory)) {
      std::vector<std::string> names;
      for (const FlightEvent& event : events_of_kind(log, "bucket")) names.push_back(event.name);
      EXPECT_THAT(names, ::testing::ElementsAre("net/bucket 0", "net#2/bucket 0", "net#2/bucket 0",
                                                "net#3/bucket 0"));
    }
  }
}

TEST(Flight, NameIsFreeAfterPlanIsDestroyed) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> x(64 * 1024, 1.0f);
        const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
        for (int round = 0; round < 3; ++round) {
          GradientSync(ctx, gradients, {.name = "net"}).exchange();
          ctx.barrier();
        }
      },
      recorded_in(directory));
  for (const FlightLog& log : logs_of(directory))
    for (const FlightEvent& event : events_of_kind(log, "bucket"))
      EXPECT_EQ(event.name, "net/bucket 0");
}

TEST(Flight, FailedAndAbortedRanksRecordReason) {
  const TemporaryDirectory directory;
  const auto run = [&] {
    testing::run_ranks(
        3,
        [](Context& ctx) {
          ctx.barrier({.name = "start"});
          if (ctx.rank() == 1) throw std::runtime_error("diverged");
          float x = 1;
          ctx.allreduce(TensorView(&x, {1}), {.name = "loss"});
        },
        recorded_in(directory));
  };
  EXPECT_THROW(run(), Error);
  const auto logs = logs_of(directory);
  ASSERT_EQ(logs.size(), 3u);
  for (const FlightLog& log : logs) {
    EXPECT_EQ(log.state,
              log.rank == 1 ? observe::FlightState::kFailed : observe::FlightState::kAborted);
    EXPECT_THAT(log.failure, HasSubstr("rank 1"));
  }
  // The records of the aborted ranks still show their waits.
  ASSERT_EQ(logs[0].open_events.size(), 1u);
  EXPECT_EQ(logs[0].open_events[0].name, "loss");
}

TEST(Flight, ComparesClocksOfNodes) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      4, [](Context& ctx) { ctx.barrier(); }, recorded_in(directory, "2"));
  const auto logs = logs_of(directory);
  ASSERT_EQ(logs.size(), 4u);
  EXPECT_EQ(logs[0].clock_offset, 0);
  EXPECT_EQ(logs[1].clock_offset, 0);
  EXPECT_EQ(logs[2].clock_offset, logs[3].clock_offset) << "one measurement for each node";
  // The ranks share a clock, so the offset is the error of the measurement.
  EXPECT_LT(std::abs(logs[2].clock_offset), 1'000'000'000);
}

TEST(Flight, ThreadRanksHaveNoFilesByDefault) {
  const TemporaryDirectory temporary;
  const char* before = getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  ASSERT_EQ(observe::flight_base().parent_path(), temporary.path());
  testing::run_ranks(2, [](Context& ctx) {
    const TraceScope phase = ctx.phase("alone");
    EXPECT_FALSE(std::filesystem::exists(observe::flight_base()));
    ctx.barrier();
  });
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", restored.c_str(), 1);
}

TEST(Flight, UnusableDirectoryIsNotAnError) {
  std::atomic<int> done{0};
  testing::run_ranks(
      2,
      [&](Context& ctx) {
        ctx.barrier();
        ++done;
      },
      {.environment = {"HORO_FLIGHT_DIR=/proc/no/such/place", "HORO_LOG_LEVEL=off"}});
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace horo
