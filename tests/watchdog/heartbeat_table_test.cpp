#include "horo/watchdog/heartbeat_table.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "horo/watchdog/node_watch.h"
#include "horo/watchdog/watchdog.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

std::vector<RankSnapshot> make_ranks(int ranks) {
  std::vector<RankSnapshot> made;
  for (int rank = 0; rank < ranks; ++rank) made.push_back(make_rank(rank));
  return made;
}

// The tables of `ranks` ranks in the same memory.
class Tables {
 public:
  explicit Tables(int ranks) : memory_(HeartbeatTable::bytes_for(ranks) / sizeof(Line)) {
    for (int rank = 0; rank < ranks; ++rank)
      tables_.push_back(std::make_unique<HeartbeatTable>(std::as_writable_bytes(std::span(memory_)),
                                                         rank, ranks));
  }
  HeartbeatTable& operator[](int rank) const { return *tables_[static_cast<std::size_t>(rank)]; }
  auto begin() const { return tables_.begin(); }
  auto end() const { return tables_.end(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_;
  std::vector<std::unique_ptr<HeartbeatTable>> tables_;
};

TEST(SeqlockBytes, NeverReadsMixedWrites) {
  auto bytes = std::make_unique<SeqlockBytes<4096>>();
  EXPECT_TRUE(bytes->read()->empty());
  std::atomic<bool> is_done{false};
  std::jthread writer([&] {
    for (int round = 0; round < 2000; ++round) {
      // The length determines the value of all bytes.
      const std::size_t length = 1 + static_cast<std::size_t>(round) % 251;
      bytes->write(std::vector<std::byte>(length, static_cast<std::byte>(length)));
    }
    is_done = true;
  });
  while (!is_done) {
    const auto seen = bytes->read();
    if (!seen) continue;
    for (std::byte byte : *seen) ASSERT_EQ(static_cast<std::size_t>(byte), seen->size());
  }
}

TEST(HeartbeatTable, RanksReadEachOthersEntries) {
  for (int ranks : {1, 2, 3, 8}) {
    const Tables tables(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      for (int beat = 0; beat <= rank; ++beat) tables[rank].publish(full_snapshot(rank + beat));
    for (const auto& reader : tables)
      for (int rank = 0; rank < ranks; ++rank) {
        const HeartbeatEntry pulse = reader->read(rank);
        EXPECT_EQ(pulse.pid, getpid());
        EXPECT_GT(pulse.start_time, 0u);
        EXPECT_EQ(pulse.heartbeat, static_cast<std::uint64_t>(rank) + 1);
        ASSERT_TRUE(pulse.snapshot);
        EXPECT_EQ(text_of(*pulse.snapshot), text_of(full_snapshot(2 * rank)));
        EXPECT_FALSE(pulse.has_left);
      }
  }
}

TEST(HeartbeatTable, OneRankClaimsAReportOncePerPeriod) {
  const Tables tables(2);
  const auto now = std::chrono::steady_clock::now();
  const auto period = std::chrono::seconds(12);
  EXPECT_TRUE(tables[1].claim_report("loss", now, period));
  EXPECT_FALSE(tables[0].claim_report("loss", now, period));
  EXPECT_FALSE(tables[1].claim_report("loss", now + period / 2, period));
  // A rank may have read its clock before the other rank's claim.
  EXPECT_FALSE(tables[1].claim_report("loss", now - std::chrono::milliseconds(2), period));
  EXPECT_TRUE(tables[0].claim_report("norm", now, period));
  EXPECT_TRUE(tables[0].claim_report("loss", now + period, period));
  EXPECT_FALSE(tables[1].claim_report("loss", now + period, period));
}

TEST(HeartbeatTable, WaitsAreExplainedOnAllRanksOfTheNode) {
  const Tables tables(2);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(tables[1].are_waits_explained(now));
  tables[0].explain_waits(now + std::chrono::seconds(3));
  EXPECT_TRUE(tables[1].are_waits_explained(now));
  EXPECT_FALSE(tables[1].are_waits_explained(now + std::chrono::seconds(3)));
}

TEST(NodeWatch, FirstRunningRankIsLeader) {
  const Tables tables(3);
  const auto now = std::chrono::steady_clock::now();
  std::vector<NodeWatch> watches;
  for (const auto& table : tables) {
    table->publish(make_rank(table->local_rank()));
    watches.emplace_back(*table, std::chrono::seconds(3), make_ranks(3));
  }
  EXPECT_TRUE(watches[0].is_leader(now));
  EXPECT_FALSE(watches[1].is_leader(now));
  EXPECT_FALSE(watches[2].is_leader(now));
  tables[0].leave();
  EXPECT_TRUE(watches[1].is_leader(now));
  EXPECT_FALSE(watches[2].is_leader(now));
  const auto ranks = watches[2].snapshots(now);
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].liveness, Liveness::kEnded);
  EXPECT_EQ(ranks[1].liveness, Liveness::kRunning);
}

TEST(NodeWatch, UsesHeartbeatsWithoutFileDescriptors) {
  using namespace std::chrono_literals;
  const Tables tables(2);
  for (const auto& table : tables) table->publish(make_rank(table->local_rank()));
  const pid_t child = fork();
  if (child == 0) {
    NodeWatch watch(tables[1], 3s, make_ranks(2));
    const auto start = std::chrono::steady_clock::now();
    const auto found_after = [&](std::chrono::nanoseconds later) {
      std::vector<Liveness> found;
      for (const RankSnapshot& rank : watch.snapshots(start + later))
        found.push_back(rank.liveness);
      return found;
    };
    using Found = std::vector<Liveness>;
    const bool sees_both = found_after(0s) == Found{Liveness::kRunning, Liveness::kRunning};
    const rlimit none{0, 0};
    const bool is_limited = setrlimit(RLIMIT_NOFILE, &none) == 0;
    const bool trusts_heartbeat = found_after(2s) == Found{Liveness::kRunning, Liveness::kRunning};
    const bool never_reports_dead =
        found_after(100s) == Found{Liveness::kSilent, Liveness::kRunning};
    _exit(sees_both && is_limited && trusts_heartbeat && never_reports_dead ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Rank 1 publishes at any time of an interval before its death; rank 0 checks once per interval.
TEST(NodeWatch, ReportsDeathWithinASecondAndTwoIntervals) {
  using namespace std::chrono_literals;
  const std::chrono::nanoseconds interval = watchdog_interval(WatchdogOptions{});
  for (const int part : {0, 1, 2, 3, 4}) {
    const std::size_t size = HeartbeatTable::bytes_for(2);
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const std::span memory(static_cast<std::byte*>(mapped), size);
    HeartbeatTable own(memory, 0, 2);
    own.publish(make_rank(0));
    const pid_t child = fork();
    if (child == 0) {
      HeartbeatTable(memory, 1, 2).publish(make_rank(1));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    // The check after the last publication sees it; the death follows before the next one is due.
    NodeWatch watch(own, 3s, make_ranks(2));
    const auto published = std::chrono::steady_clock::now();
    const auto first_check = published + part * interval / 5;
    std::optional<std::chrono::nanoseconds> reported;
    for (auto now = first_check; !reported && now < first_check + 10s; now += interval) {
      const auto ranks = watch.snapshots(now);
      ASSERT_EQ(ranks.size(), 2u);
      if (ranks[1].liveness == Liveness::kDead) reported = now - published;
    }
    ASSERT_TRUE(reported) << part;
    EXPECT_GT(*reported, 1s);
    EXPECT_LE(*reported, 1s + 2 * interval);
    munmap(mapped, size);
  }
}

// Rank 1 of two is a child process that publishes without end. Rank 0 is this process.
class BusyWriter {
 public:
  BusyWriter() : size_(HeartbeatTable::bytes_for(2)) {
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory_ = std::span(static_cast<std::byte*>(mapped), size_);
    table_ = std::make_unique<HeartbeatTable>(memory_, 0, 2);
    table_->publish(make_rank(0));
    pid_ = fork();
    if (pid_ == 0) write_forever();
  }
  ~BusyWriter() {
    kill_child();
    munmap(memory_.data(), size_);
  }
  BusyWriter(const BusyWriter&) = delete;
  BusyWriter& operator=(const BusyWriter&) = delete;

  const HeartbeatTable& table() const { return *table_; }
  pid_t pid() const { return pid_; }
  // Lets the child run for a moment.
  void resume() const {
    kill(pid_, SIGCONT);
    usleep(200);
  }
  void stop() const {
    int status = 0;
    kill(pid_, SIGSTOP);
    waitpid(pid_, &status, WUNTRACED);
  }
  // Returns whether the child could be stopped in the middle of a write.
  bool stop_during_write() const {
    for (int attempt = 0; attempt < 20000; ++attempt) {
      stop();
      const HeartbeatEntry pulse = table_->read(1);
      if (pulse.pid != 0 && !pulse.snapshot && pulse.heartbeat > 0) return true;
      resume();
    }
    return false;
  }
  void kill_child() {
    if (pid_ <= 0) return;
    int status = 0;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), &status, 0);
  }

 private:
  [[noreturn]] void write_forever() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    HeartbeatTable own(memory_, 1, 2);
    RankSnapshot state = make_rank(1, "x", 5 * kSecond);
    state.failure = std::string(1000, 'f');
    for (;;) own.publish(state);
  }

  std::size_t size_;
  std::span<std::byte> memory_;
  std::unique_ptr<HeartbeatTable> table_;
  pid_t pid_ = 0;
};

TEST(NodeWatch, KeepsSnapshotOfRankStoppedOrKilledWhileWriting) {
  using namespace std::chrono_literals;
  BusyWriter writer;
  NodeWatch watch(writer.table(), 3s, make_ranks(2));
  const auto start = std::chrono::steady_clock::now();
  while (watch.snapshots(start).size() < 2)
    ASSERT_LT(std::chrono::steady_clock::now() - start, 30s);
  ASSERT_TRUE(writer.stop_during_write());
  const auto stopped = watch.snapshots(start + 1s);
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_EQ(stopped[1].liveness, Liveness::kStopped);
  ASSERT_EQ(stopped[1].open.size(), 1u);
  EXPECT_EQ(stopped[1].open[0].name, "x");
  writer.kill_child();
  const auto killed = watch.snapshots(start + 5s);
  ASSERT_EQ(killed.size(), 2u);
  EXPECT_EQ(killed[1].liveness, Liveness::kDead);
}

TEST(NodeWatch, ShowsUnreadableRankByNumber) {
  using namespace std::chrono_literals;
  BusyWriter writer;
  ASSERT_TRUE(writer.stop_during_write());
  NodeWatch watch(writer.table(), 3s, {make_rank(6), make_rank(7)});
  const auto ranks = watch.snapshots(std::chrono::steady_clock::now());
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].rank, 7);
  EXPECT_EQ(ranks[1].host, "h3");
  EXPECT_EQ(ranks[1].pid, writer.pid());
  EXPECT_EQ(ranks[1].liveness, Liveness::kStopped);
}

TEST(NodeWatch, OmitsRankWithoutSnapshot) {
  const Tables tables(2);
  tables[0].publish(make_rank(0));
  NodeWatch watch(tables[0], std::chrono::seconds(3), make_ranks(2));
  // The rank has registered, but its snapshot is empty.
  EXPECT_EQ(watch.snapshots(std::chrono::steady_clock::now()).size(), 1u);
}

}  // namespace
}  // namespace horo::observe
