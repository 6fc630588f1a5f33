#include "horo/observe/pulse_board.h"

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
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "horo/observe/node_watch.h"
#include "horo/observe/seqlock_bytes.h"
#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

std::vector<RankSnapshot> make_ranks(int ranks) {
  std::vector<RankSnapshot> made;
  for (int rank = 0; rank < ranks; ++rank) made.push_back(make_rank(rank));
  return made;
}

// The boards of `ranks` ranks over the same memory.
class Boards {
 public:
  explicit Boards(int ranks) : memory_(PulseBoard::bytes_for(ranks) / sizeof(Line)) {
    for (int rank = 0; rank < ranks; ++rank)
      boards_.push_back(
          std::make_unique<PulseBoard>(std::as_writable_bytes(std::span(memory_)), rank, ranks));
  }
  PulseBoard& operator[](int rank) const { return *boards_[static_cast<std::size_t>(rank)]; }
  auto begin() const { return boards_.begin(); }
  auto end() const { return boards_.end(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_;
  std::vector<std::unique_ptr<PulseBoard>> boards_;
};

TEST(SeqlockBytes, AReaderSeesOneWriteOrAnotherButNoMixture) {
  auto bytes = std::make_unique<SeqlockBytes<4096>>();
  EXPECT_TRUE(bytes->read()->empty());
  std::atomic<bool> is_done{false};
  std::jthread writer([&] {
    for (int round = 0; round < 2000; ++round) {
      // The length says which byte it is full of.
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

TEST(PulseBoard, EachRankReadsWhatTheOthersWrote) {
  for (int ranks : {1, 2, 3, 8}) {
    const Boards boards(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      for (int beat = 0; beat <= rank; ++beat) boards[rank].publish(full_snapshot(rank + beat));
    for (const auto& reader : boards)
      for (int rank = 0; rank < ranks; ++rank) {
        const Pulse pulse = reader->read(rank);
        EXPECT_EQ(pulse.pid, getpid());
        EXPECT_GT(pulse.start_time, 0u);
        EXPECT_EQ(pulse.heartbeat, static_cast<std::uint64_t>(rank) + 1);
        ASSERT_TRUE(pulse.snapshot);
        EXPECT_EQ(text_of(*pulse.snapshot), text_of(full_snapshot(2 * rank)));
        EXPECT_FALSE(pulse.has_left);
      }
  }
}

TEST(NodeWatch, TheFirstRankThatIsThereSpeaks) {
  const Boards boards(3);
  const auto now = std::chrono::steady_clock::now();
  std::vector<NodeWatch> watches;
  for (const auto& board : boards) {
    board->publish(make_rank(board->local_rank()));
    watches.emplace_back(*board, std::chrono::seconds(3), make_ranks(3));
  }
  EXPECT_TRUE(watches[0].is_speaker(now));
  EXPECT_FALSE(watches[1].is_speaker(now));
  EXPECT_FALSE(watches[2].is_speaker(now));
  boards[0].leave();
  EXPECT_TRUE(watches[1].is_speaker(now));
  EXPECT_FALSE(watches[2].is_speaker(now));
  const auto ranks = watches[2].look(now);
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].liveness, Liveness::kEnded);
  EXPECT_EQ(ranks[1].liveness, Liveness::kRunning);
}

TEST(NodeWatch, WithoutADescriptorToSpareOthersAreKnownByTheirHeartbeats) {
  using namespace std::chrono_literals;
  const Boards boards(2);
  for (const auto& board : boards) board->publish(make_rank(board->local_rank()));
  const pid_t child = fork();
  if (child == 0) {
    NodeWatch watch(boards[1], 3s, make_ranks(2));
    const auto start = std::chrono::steady_clock::now();
    const auto look = [&](std::chrono::nanoseconds later) {
      std::vector<Liveness> found;
      for (const RankSnapshot& rank : watch.look(start + later)) found.push_back(rank.liveness);
      return found;
    };
    using Found = std::vector<Liveness>;
    const bool saw_both = look(0s) == Found{Liveness::kRunning, Liveness::kRunning};
    const rlimit none{0, 0};
    const bool is_limited = setrlimit(RLIMIT_NOFILE, &none) == 0;
    const bool trusts_heartbeat = look(2s) == Found{Liveness::kRunning, Liveness::kRunning};
    const bool never_says_dead = look(100s) == Found{Liveness::kSilent, Liveness::kRunning};
    _exit(saw_both && is_limited && trusts_heartbeat && never_says_dead ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Rank 1 of two is another process, which writes on the board without end; rank 0 is this one.
class RestlessWriter {
 public:
  RestlessWriter() : size_(PulseBoard::bytes_for(2)) {
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory_ = std::span(static_cast<std::byte*>(mapped), size_);
    board_ = std::make_unique<PulseBoard>(memory_, 0, 2);
    board_->publish(make_rank(0));
    pid_ = fork();
    if (pid_ == 0) write_without_end();
  }
  ~RestlessWriter() {
    kill_it();
    munmap(memory_.data(), size_);
  }
  RestlessWriter(const RestlessWriter&) = delete;
  RestlessWriter& operator=(const RestlessWriter&) = delete;

  const PulseBoard& board() const { return *board_; }
  pid_t pid() const { return pid_; }
  // Lets it run for a moment.
  void resume() const {
    kill(pid_, SIGCONT);
    usleep(200);
  }
  void stop() const {
    int status = 0;
    kill(pid_, SIGSTOP);
    waitpid(pid_, &status, WUNTRACED);
  }
  // Whether that could be had.
  bool stop_while_it_writes() const {
    for (int attempt = 0; attempt < 20000; ++attempt) {
      stop();
      const Pulse pulse = board_->read(1);
      if (pulse.pid != 0 && !pulse.snapshot && pulse.heartbeat > 0) return true;
      resume();
    }
    return false;
  }
  void kill_it() {
    if (pid_ <= 0) return;
    int status = 0;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), &status, 0);
  }

 private:
  [[noreturn]] void write_without_end() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PulseBoard own(memory_, 1, 2);
    RankSnapshot state = make_rank(1, "x", 5 * kSecond);
    state.failure = std::string(1000, 'f');
    for (;;) own.publish(state);
  }

  std::size_t size_;
  std::span<std::byte> memory_;
  std::unique_ptr<PulseBoard> board_;
  pid_t pid_ = 0;
};

TEST(NodeWatch, ARankThatIsStoppedOrKilledWhileItWritesIsSeenAsItWas) {
  using namespace std::chrono_literals;
  RestlessWriter writer;
  NodeWatch watch(writer.board(), 3s, make_ranks(2));
  const auto start = std::chrono::steady_clock::now();
  while (watch.look(start).size() < 2) ASSERT_LT(std::chrono::steady_clock::now() - start, 30s);
  ASSERT_TRUE(writer.stop_while_it_writes());
  const auto stopped = watch.look(start + 1s);
  ASSERT_EQ(stopped.size(), 2u);
  EXPECT_EQ(stopped[1].liveness, Liveness::kStopped);
  ASSERT_EQ(stopped[1].open.size(), 1u);
  EXPECT_EQ(stopped[1].open[0].name, "x");
  writer.kill_it();
  const auto killed = watch.look(start + 5s);
  ASSERT_EQ(killed.size(), 2u);
  EXPECT_EQ(killed[1].liveness, Liveness::kDead);
}

TEST(NodeWatch, ARankOfWhichNothingCouldBeReadIsKnownByItsNumber) {
  using namespace std::chrono_literals;
  RestlessWriter writer;
  ASSERT_TRUE(writer.stop_while_it_writes());
  NodeWatch watch(writer.board(), 3s, {make_rank(6), make_rank(7)});
  const auto ranks = watch.look(std::chrono::steady_clock::now());
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].rank, 7);
  EXPECT_EQ(ranks[1].host, "h3");
  EXPECT_EQ(ranks[1].pid, writer.pid());
  EXPECT_EQ(ranks[1].liveness, Liveness::kStopped);
}

TEST(NodeWatch, ARankThatHasNotWrittenYetIsNotSeen) {
  const Boards boards(2);
  boards[0].publish(make_rank(0));
  NodeWatch watch(boards[0], std::chrono::seconds(3), make_ranks(2));
  // Its place is taken, but there is nothing to read: an empty snapshot.
  EXPECT_EQ(watch.look(std::chrono::steady_clock::now()).size(), 1u);
}

}  // namespace
}  // namespace horo::observe
