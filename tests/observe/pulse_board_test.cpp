#include "horo/observe/pulse_board.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "horo/observe/node_watch.h"
#include "horo/observe/seqlock_bytes.h"
#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

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
    watches.emplace_back(*board, std::chrono::seconds(3));
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
    NodeWatch watch(boards[1], 3s);
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

TEST(NodeWatch, ARankThatHasNotWrittenYetIsNotSeen) {
  const Boards boards(2);
  boards[0].publish(make_rank(0));
  NodeWatch watch(boards[0], std::chrono::seconds(3));
  // Its place is taken, but there is nothing to read: an empty snapshot.
  EXPECT_EQ(watch.look(std::chrono::steady_clock::now()).size(), 1u);
}

}  // namespace
}  // namespace horo::observe
