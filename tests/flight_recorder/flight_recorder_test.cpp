#include "horo/flight_recorder/flight_recorder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "horo/flight_recorder/flight_memory.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo::observe {
namespace {

FlightRecord make_record(FlightRecorder& recorder, const std::string& name, std::uint64_t bytes) {
  FlightRecord record{};
  record.name = recorder.name(name);
  record.kind = static_cast<std::uint16_t>(recorder.name("allreduce"));
  record.bytes = bytes;
  record.submitted = flight_clock();
  return record;
}

FlightLog log_of(const FlightRecorder& recorder) { return parse_flight(recorder.image()); }

TEST(FlightRecorder, RecordsIdentity) {
  const FlightRecorder recorder({.id = 77,
                                 .rank = 3,
                                 .size = 5,
                                 .node = 1,
                                 .node_count = 2,
                                 .host = "b",
                                 .clock_offset = -9,
                                 .path = {}});
  const FlightLog log = log_of(recorder);
  EXPECT_EQ(log.job, 77u);
  EXPECT_EQ(log.rank, 3);
  EXPECT_EQ(log.size, 5);
  EXPECT_EQ(log.node, 1);
  EXPECT_EQ(log.node_count, 2);
  EXPECT_EQ(log.host, "b");
  EXPECT_EQ(log.clock_offset, -9);
  EXPECT_EQ(log.pid, getpid());
  EXPECT_EQ(log.state, FlightState::kRunning);
}

TEST(FlightRecorder, RecordsFinishedOperationWithTimes) {
  FlightRecorder recorder(FlightJob{});
  OpenFlight open = recorder.open(make_record(recorder, "loss", 4));
  const std::int64_t start = flight_clock();
  open.start(start, start + 5);
  open.finish(start + 17);
  const FlightLog log = log_of(recorder);
  ASSERT_EQ(log.finished_events.size(), 1u);
  const FlightEvent& event = log.finished_events[0];
  EXPECT_EQ(event.name, "loss");
  EXPECT_EQ(event.kind, "allreduce");
  EXPECT_EQ(event.bytes, 4u);
  EXPECT_EQ(event.started - event.agreed, 5);
  EXPECT_EQ(event.ended - event.agreed, 17);
  EXPECT_GT(event.submitted, log.begun - 1);
  EXPECT_TRUE(log.open_events.empty());
  EXPECT_EQ(log.finished, 1u);
}

TEST(FlightRecorder, ConvertsTimesToRankZerosClock) {
  const std::int64_t hour = 3'600'000'000'000;
  FlightRecorder ahead({.host = "a", .clock_offset = hour, .path = {}});
  FlightRecorder here(FlightJob{});
  EXPECT_NEAR(static_cast<double>(log_of(ahead).begun - log_of(here).begun),
              static_cast<double>(hour), 1e9 * 60);
}

TEST(FlightRecorder, KeepsLatestRecordsAndAllOpenOperations) {
  FlightRecorder recorder(FlightJob{});
  const OpenFlight stuck = recorder.open(make_record(recorder, "never answered", 8));
  const std::uint64_t count = 5 * kRingEntries + 3;
  for (std::uint64_t i = 0; i < count; ++i)
    recorder.open(make_record(recorder, fmt::format("t{}", i % 7), i)).finish(flight_clock());
  const FlightLog log = log_of(recorder);
  ASSERT_EQ(log.finished_events.size(), kRingEntries);
  EXPECT_EQ(log.torn, 0u);
  for (std::size_t i = 0; i < log.finished_events.size(); ++i) {
    EXPECT_EQ(log.finished_events[i].sequence, count - kRingEntries + i + 1);
    EXPECT_EQ(log.finished_events[i].bytes, count - kRingEntries + i);
  }
  ASSERT_EQ(log.open_events.size(), 1u);
  EXPECT_EQ(log.open_events[0].name, "never answered");
  EXPECT_EQ(log.open_events[0].started, 0);
  EXPECT_EQ(log.finished, count);
  const FlightLog latest = parse_flight(recorder.image(), 3);
  ASSERT_EQ(latest.finished_events.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(latest.finished_events[i].bytes, count - 3 + i);
  EXPECT_EQ(latest.torn, 0u);
}

TEST(FlightRecorder, DropsAbandonedOperation) {
  FlightRecorder recorder(FlightJob{});
  { const OpenFlight refused = recorder.open(make_record(recorder, "doubled", 8)); }
  OpenFlight moved = recorder.open(make_record(recorder, "moved", 8));
  const OpenFlight kept = std::move(moved);
  const FlightLog log = log_of(recorder);
  ASSERT_EQ(log.open_events.size(), 1u);
  EXPECT_EQ(log.open_events[0].name, "moved");
  EXPECT_TRUE(log.finished_events.empty());
}

TEST(FlightRecorder, RecordsFailureAfterAbortSignalAsAborted) {
  AbortSignal abort;
  FlightRecorder first({.abort = &abort});
  FlightRecorder second({.abort = &abort});
  first.fail("out of memory");
  abort.raise("rank 0 failed");
  second.fail("waited for nothing");
  EXPECT_EQ(parse_flight(first.image()).state, FlightState::kFailed);
  EXPECT_EQ(parse_flight(first.image()).failure, "out of memory");
  EXPECT_EQ(parse_flight(second.image()).state, FlightState::kAborted);
  EXPECT_EQ(parse_flight(second.image()).failure, "rank 0 failed");
  EXPECT_FALSE(snapshot_of(parse_flight(first.image())).is_aborted);
  EXPECT_TRUE(snapshot_of(parse_flight(second.image())).is_aborted);
}

TEST(FlightRecorder, KeepsOpenOperationsOfFailedRank) {
  FlightRecorder recorder(FlightJob{});
  {
    const OpenFlight open = recorder.open(make_record(recorder, "step", 8));
    recorder.fail("rank 1 is gone");
    recorder.fail("and so are the others");
    recorder.end();
  }
  const FlightLog log = log_of(recorder);
  EXPECT_EQ(log.state, FlightState::kFailed);
  EXPECT_EQ(log.failure, "rank 1 is gone");
  ASSERT_EQ(log.open_events.size(), 1u);
  EXPECT_EQ(log.open_events[0].name, "step");
}

TEST(FlightRecorder, CountsOpenOperationsBeyondTable) {
  FlightRecorder recorder(FlightJob{});
  std::vector<OpenFlight> open;
  for (std::uint32_t i = 0; i < kOpenEntries + 3; ++i)
    open.push_back(recorder.open(make_record(recorder, "x", i)));
  EXPECT_EQ(log_of(recorder).open_events.size(), kOpenEntries);
  EXPECT_EQ(log_of(recorder).unlisted, 3u);
  open.front().finish(flight_clock());
  EXPECT_EQ(log_of(recorder).unlisted, 3u) << "a free row is not given to an older operation";
  open.back().finish(flight_clock());
  EXPECT_EQ(log_of(recorder).unlisted, 2u);
  const RankSnapshot snapshot = live_snapshot_of(log_of(recorder), wall_time_now());
  EXPECT_EQ(snapshot.open.size(), kOpenEntries - 1);
  EXPECT_EQ(snapshot.unlisted, 2u);
  open.clear();
  EXPECT_TRUE(log_of(recorder).open_events.empty());
  EXPECT_EQ(log_of(recorder).unlisted, 0u);
  const OpenFlight again = recorder.open(make_record(recorder, "y", 1));
  EXPECT_EQ(log_of(recorder).open_events.size(), 1u);
}

TEST(FlightRecorder, NumbersEachNameOnce) {
  FlightRecorder recorder(FlightJob{});
  const NameId x = recorder.name("x");
  EXPECT_NE(x, 0u);
  EXPECT_EQ(recorder.name("x"), x);
  EXPECT_NE(recorder.name("y"), x);
  EXPECT_EQ(recorder.name(""), 0u);
  // Long names are truncated.
  const std::string text(NameTable::kMaxNameBytes, 'n');
  EXPECT_EQ(recorder.name(text + "1"), recorder.name(text + "2"));
}

TEST(FlightRecorder, LosesOnlyNewNamesWhenTableIsFull) {
  FlightRecorder recorder(FlightJob{});
  const NameId first = recorder.name("tensor 0");
  NameId last = first;
  for (int i = 1; last != 0; ++i) last = recorder.name(fmt::format("tensor {}", i));
  EXPECT_EQ(recorder.name("tensor 0"), first);
  EXPECT_EQ(recorder.name("one more"), 0u);
  recorder.open(make_record(recorder, "one more", 8)).finish(flight_clock());
  recorder.open(make_record(recorder, "tensor 0", 8)).finish(flight_clock());
  const FlightLog log = log_of(recorder);
  EXPECT_GE(log.names_lost, 2u);
  ASSERT_EQ(log.finished_events.size(), 2u);
  EXPECT_EQ(log.finished_events[0].name, "(unnamed)");
  EXPECT_EQ(log.finished_events[1].name, "tensor 0");
}

TEST(FlightRecorder, CountsOperationWithLostNameAsUnlisted) {
  FlightRecorder recorder(FlightJob{});
  for (int i = 0; recorder.name(fmt::format("tensor {}", i)) != 0; ++i) continue;
  const OpenFlight lost = recorder.open(make_record(recorder, "one more", 8));
  const FlightLog log = log_of(recorder);
  EXPECT_TRUE(log.open_events.empty());
  EXPECT_EQ(log.unlisted, 1u);
}

TEST(FlightRecorder, RecordsNestedPhases) {
  using Kind = FlightRecorder::SpanKind;
  FlightRecorder recorder(FlightJob{});
  const auto outer = recorder.begin(Kind::kPhase, "step");
  const auto inner = recorder.begin(Kind::kPhase, "forward");
  const auto pause = recorder.begin(Kind::kPause, "checkpoint");
  EXPECT_EQ(log_of(recorder).phase, "forward");
  EXPECT_EQ(log_of(recorder).pause, "checkpoint");
  recorder.end(Kind::kPause, pause);
  recorder.end(Kind::kPhase, inner);
  const FlightLog between = log_of(recorder);
  EXPECT_EQ(between.phase, "step");
  EXPECT_LE(between.phase_since, between.finished_events[0].started);
  EXPECT_EQ(between.pause, "");
  recorder.end(Kind::kPhase, outer);
  const FlightLog log = log_of(recorder);
  EXPECT_EQ(log.phase, "");
  ASSERT_EQ(log.finished_events.size(), 3u);
  EXPECT_EQ(log.finished_events[0].kind, "pause");
  EXPECT_EQ(log.finished_events[1].name, "forward");
  EXPECT_EQ(log.finished_events[2].name, "step");
  EXPECT_EQ(log.finished, 0u) << "phases are no operations";
}

// Under the thread sanitizer this shows that writers and readers need no lock.
TEST(FlightRecorder, SupportsConcurrentWritersAndReaders) {
  FlightRecorder recorder(FlightJob{});
  constexpr int kThreads = 4;
  constexpr int kEach = 4000;
  std::atomic<bool> is_done{false};
  std::jthread reader([&] {
    while (!is_done) {
      const FlightLog log = log_of(recorder);
      for (const FlightEvent& event : log.finished_events) {
        ASSERT_EQ(event.name, fmt::format("t{}", event.bytes % 11));
        ASSERT_EQ(event.ended - event.started, static_cast<std::int64_t>(event.bytes));
      }
      for (const FlightEvent& event : log.open_events)
        ASSERT_EQ(event.name, fmt::format("t{}", event.bytes % 11));
      recorder.pulse();
    }
  });
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < kThreads; ++t)
      writers.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto bytes = static_cast<std::uint64_t>(t * kEach + i);
          OpenFlight open =
              recorder.open(make_record(recorder, fmt::format("t{}", bytes % 11), bytes));
          const std::int64_t now = flight_clock();
          open.start(now, now);
          open.finish(now + static_cast<std::int64_t>(bytes));
        }
      });
  }
  is_done = true;
  reader.join();
  const FlightLog log = log_of(recorder);
  EXPECT_EQ(log.finished, static_cast<std::uint64_t>(kThreads * kEach));
  EXPECT_EQ(log.finished_events.size() + log.torn, kRingEntries);
  std::set<std::uint64_t> sequences;
  for (const FlightEvent& event : log.finished_events) sequences.insert(event.sequence);
  EXPECT_EQ(sequences.size(), log.finished_events.size());
}

TEST(FlightRecorder, KeepsLatestRecordOfSlot) {
  FlightRecord slot{}, record{};
  record.bytes = 5;
  write_latest_record(slot, record, 1025);
  EXPECT_EQ(slot.sequence, 1025u);
  EXPECT_EQ(slot.bytes, 5u);
  record.bytes = 6;
  write_latest_record(slot, record, 1);  // by a thread that other threads have overtaken
  EXPECT_EQ(slot.sequence, 1025u);
  EXPECT_EQ(slot.bytes, 5u);
  write_latest_record(slot, record, 2049);
  EXPECT_EQ(slot.bytes, 6u);
  slot.sequence = 2049 | kBeingWritten;  // another thread is writing the record
  record.bytes = 7;
  write_latest_record(slot, record, 3073);
  EXPECT_EQ(slot.sequence, 2049 | kBeingWritten);
  EXPECT_EQ(slot.bytes, 6u);
}

TEST(FlightRecorder, MarksRecordChangedDuringCopyAsTorn) {
  FlightRecorder recorder(FlightJob{});
  for (std::uint64_t i = 0; i < kRingEntries; ++i)
    recorder.open(make_record(recorder, "a", i)).finish(flight_clock());
  std::vector<std::byte> image = recorder.image();
  const std::uint64_t records_afterwards = kRingEntries + 3;
  std::memcpy(image.data() + kRecordsAt, &records_afterwards, sizeof records_afterwards);
  const FlightLog log = parse_flight(image);
  EXPECT_EQ(log.torn, 3u);
  ASSERT_EQ(log.finished_events.size(), kRingEntries - 3);
  EXPECT_EQ(log.finished_events.front().bytes, 3u);
}

TEST(FlightRecorder, DropsOpenRowChangedDuringCopy) {
  FlightRecorder recorder(FlightJob{});
  const FlightTable table = recorder.layout().header->identity.open;
  const OpenFlight kept = recorder.open(make_record(recorder, "kept", 1));
  OpenFlight first = recorder.open(make_record(recorder, "first", 2));
  std::vector<std::byte> copy = recorder.image();
  first.finish(flight_clock());
  OpenFlight second = recorder.open(make_record(recorder, "second", 3));  // in the same row
  second.start(flight_clock(), flight_clock());
  const std::vector<std::byte> later = recorder.image();
  ASSERT_EQ(parse_flight(later).open_events.size(), 2u);
  // The copy has reached the middle of the row.
  const std::size_t middle = table.offset + sizeof(FlightRecord) + sizeof(FlightRecord) / 2;
  std::memcpy(copy.data() + middle, later.data() + middle, sizeof(FlightRecord) / 2);
  std::vector<std::uint64_t> sequences;
  for (const FlightRecord& row : recorder.layout().open)
    sequences.push_back(load_relaxed(row.sequence));
  drop_changed_rows(copy, table, sequences);
  const FlightLog log = parse_flight(copy);
  ASSERT_EQ(log.open_events.size(), 1u);
  EXPECT_EQ(log.open_events[0].name, "kept");
}

TEST(FlightRecorder, FileOutlivesKilledProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("rank.2.flight");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    FlightRecorder recorder({.id = 5, .rank = 2, .size = 4, .host = "h", .path = path});
    recorder.open(make_record(recorder, "done", 8)).finish(flight_clock());
    const OpenFlight open = recorder.open(make_record(recorder, "hangs", 16));
    if (write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(is_writer_alive(read_flight(path)));
  EXPECT_EQ(snapshot_of(read_flight(path)).liveness, Liveness::kRunning);
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(snapshot_of(read_flight(path)).liveness, Liveness::kStopped);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const RankSnapshot snapshot = snapshot_of(read_flight(path));
  EXPECT_EQ(snapshot.liveness, Liveness::kDead);
  EXPECT_EQ(snapshot.rank, 2);
  EXPECT_EQ(snapshot.pid, child);
  EXPECT_EQ(snapshot.last_finished, "done");
  ASSERT_EQ(snapshot.open.size(), 1u);
  EXPECT_EQ(snapshot.open[0].name, "hangs");
  EXPECT_EQ(snapshot.open[0].bytes, 16u);
  close(ready[0]);
  close(ready[1]);
}

TEST(FlightRecorder, ReportsWhyFileCannotBeCreated) {
  try {
    const FlightRecorder recorder({.path = "/no/such/directory/rank.0.flight"});
    FAIL() << "it was made";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "/no/such/directory/rank.0.flight: No such file or directory");
  }
}

}  // namespace
}  // namespace horo::observe
