#include "horo/watchdog/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FakeState : public SnapshotProvider {
 public:
  RankSnapshot snapshot() override {
    const std::scoped_lock lock(mutex_);
    state_.taken = wall_time_now();
    return state_;
  }
  void set(const RankSnapshot& state) {
    const std::scoped_lock lock(mutex_);
    state_ = state;
  }

 private:
  std::mutex mutex_;
  RankSnapshot state_;
};

// Watchdogs of ranks that are threads of this process, `per_node` to each emulated node.
class WatchedJob {
 public:
  WatchedJob(int ranks, std::size_t per_node, bool is_hub_reachable = true,
             std::chrono::nanoseconds time_to_find_hub = 10s)
      : job_(ranks, {.ranks_per_node = per_node}),
        time_to_find_hub_(time_to_find_hub),
        states_(static_cast<std::size_t>(ranks)),
        long_waits_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(job_.transport(rank));
      topologies_.push_back(std::make_unique<Topology>(transports_.back()->topology()));
      states_[rank].set(make_rank(rank));
    }
    std::unique_ptr<LeaderHub> hub;
    HubAddress point;
    if (topologies_[0]->node_count > 1) {
      hub =
          std::make_unique<LeaderHub>(topologies_[0]->node_count, static_cast<int>(per_node), true);
      if (is_hub_reachable) point = hub->address();
    }
    for (int rank = 0; rank < ranks; ++rank)
      start(rank, rank == 0 ? std::move(hub) : nullptr, point);
  }

  void set(int rank, const RankSnapshot& state) {
    states_[static_cast<std::size_t>(rank)].set(state);
  }
  void note_wait(int rank, std::chrono::nanoseconds age, const std::string& text) {
    long_waits_[static_cast<std::size_t>(rank)].note("loss", age, text,
                                                     std::chrono::steady_clock::now());
  }
  void leave(int rank) { watchdogs_[static_cast<std::size_t>(rank)].reset(); }

  std::vector<std::string> logged() {
    const std::scoped_lock lock(mutex_);
    return logged_;
  }
  std::vector<int> exits() {
    const std::scoped_lock lock(mutex_);
    return exits_;
  }
  bool sees_all() const { return abort().is_watched(std::chrono::steady_clock::now()); }
  const AbortSignal& abort() const { return *transports_[0]->wait_policy().abort; }

  // Waits until `is_done` returns true; fails after a limit.
  template <typename Predicate>
  void await(Predicate&& is_done) {
    for (int i = 0; i < 30000 && !is_done(); ++i) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(is_done());
  }

 private:
  void start(int rank, std::unique_ptr<LeaderHub> hub, const HubAddress& point) {
    WatchdogOptions options;
    options.stall_warning = 100ms;
    options.timeout = 400ms;
    options.stuck_after = 100ms;
    options.time_to_find_hub = time_to_find_hub_;
    auto& transport = *transports_[static_cast<std::size_t>(rank)];
    options.abort = transport.wait_policy().abort;
    options.long_waits = &long_waits_[static_cast<std::size_t>(rank)];
    options.raise_abort = [&](const std::string& text) { transport.abort(text.c_str()); };
    options.log = [this](const std::string& text) {
      const std::scoped_lock lock(mutex_);
      logged_.push_back(text);
    };
    options.end_process = [this, rank](int code) {
      const std::scoped_lock lock(mutex_);
      exits_.push_back(rank * 1000 + code);
    };
    const Topology& topology = *topologies_[static_cast<std::size_t>(rank)];
    tables_.push_back(transport.make_node_region(HeartbeatTable::bytes_for(topology.local_size)));
    watchdogs_.push_back(std::make_unique<Watchdog>(
        topology, states_[static_cast<std::size_t>(rank)], tables_.back()->bytes(), std::move(hub),
        point, std::move(options)));
  }

  collectives::InProcessJob job_;
  std::chrono::nanoseconds time_to_find_hub_;
  std::vector<std::unique_ptr<collectives::Transport>> transports_;
  std::vector<std::unique_ptr<Topology>> topologies_;
  std::vector<FakeState> states_;
  std::vector<LongWaits> long_waits_;
  std::mutex mutex_;  // guards the two below
  std::vector<std::string> logged_;
  std::vector<int> exits_;
  std::vector<std::unique_ptr<collectives::SharedRegion>> tables_;
  std::vector<std::unique_ptr<Watchdog>> watchdogs_;  // last: they use all members above
};

TEST(Watchdog, NamesLateRankAndAbortsAfterTimeout) {
  for (std::size_t per_node : {4, 2, 1}) {
    WatchedJob job(4, per_node);
    for (int rank : {0, 1, 3}) job.set(rank, make_rank(rank, "fc1.grad", wall_time_now()));
    job.await([&] { return job.abort().is_raised(); });
    EXPECT_THAT(job.abort().text(), AllOf(HasSubstr("'fc1.grad'"), HasSubstr("rank 2 "),
                                          HasSubstr("(HORO_TIMEOUT is 400 ms)")));
    EXPECT_THAT(job.logged(), Contains(AllOf(HasSubstr("'fc1.grad'"), HasSubstr("rank 2 "))));
  }
}

TEST(Watchdog, RankZeroHasSnapshotsOfAllNodes) {
  for (std::size_t per_node : {3, 2, 1}) {
    WatchedJob job(3, per_node);
    job.await([&] { return job.sees_all(); });
    EXPECT_THAT(job.logged(), IsEmpty());
  }
}

TEST(Watchdog, ComputingWithoutWaitersIsNotAStall) {
  WatchedJob job(3, 2);
  job.await([&] { return job.sees_all(); });
  std::this_thread::sleep_for(600ms);
  EXPECT_THAT(job.logged(), IsEmpty());
  EXPECT_FALSE(job.abort().is_raised());
}

TEST(Watchdog, RankThatLeftIsNotDead) {
  WatchedJob job(4, 2);
  job.await([&] { return job.sees_all(); });
  job.leave(2);  // the leader of its node
  job.leave(1);
  std::this_thread::sleep_for(600ms);
  EXPECT_THAT(job.logged(), IsEmpty());
  EXPECT_FALSE(job.abort().is_raised());
  // The remaining rank of the second node is its leader now.
  job.set(3, make_rank(3, "alone", wall_time_now()));
  job.await([&] { return job.abort().is_raised(); });
  EXPECT_THAT(job.abort().text(), HasSubstr("'alone'"));
}

TEST(Watchdog, RespectsPauseOnOtherNode) {
  WatchedJob job(2, 1);
  RankSnapshot paused = make_rank(1);
  paused.pause = "checkpoint";
  paused.pause_since = wall_time_now();
  job.set(1, paused);
  job.await([&] { return job.sees_all(); });
  job.set(0, make_rank(0, "next", wall_time_now()));
  job.await([&] { return !job.logged().empty(); });
  std::this_thread::sleep_for(700ms);  // longer than the timeout
  EXPECT_THAT(job.logged(),
              Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("in pause 'checkpoint'"),
                         HasSubstr("rank 0 has waited"), HasSubstr("'next'"))));
  EXPECT_FALSE(job.abort().is_raised());
  EXPECT_NE(job.abort().excused(), std::chrono::steady_clock::time_point{})
      << "waits are not excused";
  job.set(1, make_rank(1));
  job.await([&] { return job.abort().is_raised(); });
}

TEST(Watchdog, NodesEvaluateThemselvesWithoutHub) {
  WatchedJob job(4, 2, /*is_hub_reachable=*/false);
  job.set(3, make_rank(3, "y", wall_time_now()));
  job.await([&] { return job.abort().is_raised(); });
  EXPECT_THAT(job.abort().text(),
              AllOf(HasSubstr("'y'"), HasSubstr("rank 2 "), Not(HasSubstr("rank 0 "))));
  EXPECT_FALSE(job.sees_all());
}

TEST(Watchdog, LogsNotedWaitsOnlyWithoutHub) {
  WatchedJob watched(4, 2);
  watched.await([&] { return watched.sees_all(); });
  WatchedJob job(4, 2, /*is_hub_reachable=*/false);
  const auto has_logged = [&] {
    watched.note_wait(0, 1s, "'loss' has waited");
    job.note_wait(0, 1s, "'loss' has waited");
    return !job.logged().empty();
  };
  job.await(has_logged);
  EXPECT_THAT(job.logged(), testing::ElementsAre("'loss' has waited"));
  EXPECT_THAT(watched.logged(), IsEmpty());
}

TEST(Watchdog, OneRankOfANodeLogsAWaitThatAllHaveNoted) {
  WatchedJob job(4, 2, /*is_hub_reachable=*/false);
  const auto start = std::chrono::steady_clock::now();
  const auto note_waits = [&] {
    for (int rank : {2, 3}) job.note_wait(rank, 1s, "'loss' has waited");
    return !job.logged().empty();
  };
  job.await(note_waits);
  for (int i = 0; i < 20; ++i) {
    note_waits();
    std::this_thread::sleep_for(10ms);
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const auto repetitions = static_cast<std::size_t>(elapsed / 400ms);  // four times stall_warning
  EXPECT_LE(job.logged().size(), 1 + repetitions);
}

TEST(Watchdog, VerdictOfTheLeaderExplainsWaitsOfItsNode) {
  WatchedJob job(4, 2, /*is_hub_reachable=*/false);
  job.set(3, make_rank(3, "y", wall_time_now()));
  job.await([&] { return !job.logged().empty(); });  // rank 2 reports itself as late
  job.await([&] {
    job.note_wait(3, 1s, "'loss' has waited");
    return job.abort().is_raised();
  });
  EXPECT_THAT(job.logged(), Not(Contains(HasSubstr("'loss'"))));
}

TEST(Watchdog, WaitingRanksNameUnknownRanks) {
  WatchedJob job(4, 2, /*is_hub_reachable=*/false);
  for (int rank : {2, 3}) job.set(rank, make_rank(rank, "z", wall_time_now()));
  job.await([&] {
    const auto logged = job.logged();
    return std::any_of(logged.begin(), logged.end(), [](const std::string& text) {
      return text.starts_with("ranks 0-1 (host ") &&
             text.find(") have sent no heartbeat") != std::string::npos &&
             text.find("'z'") != std::string::npos;
    });
  });
  for (const std::string& text : job.logged()) EXPECT_THAT(text, Not(HasSubstr("every rank")));
  job.await([&] { return job.abort().is_raised(); });
  EXPECT_THAT(job.abort().text(), testing::StartsWith("ranks 0-1 (host "));
}

TEST(Watchdog, EndsRankStuckAfterAbort) {
  WatchedJob job(3, 3);
  job.set(0, make_rank(0, "x", wall_time_now()));
  job.set(1, make_rank(1, "x", wall_time_now()));
  job.await([&] { return job.abort().is_raised(); });
  job.set(0, make_rank(0));  // its wait has ended; rank 2 has not been in an operation
  job.await([&] { return !job.exits().empty(); });
  for (int exit : job.exits()) EXPECT_EQ(exit, 1000 + kStuckExitCode);
}

TEST(Watchdog, LastReportOfNodeHasAbortReason) {
  collectives::InProcessJob job(2, {.ranks_per_node = 1});
  const auto transport = job.transport(1);
  const Topology topology = transport->topology();
  const auto table = transport->make_node_region(HeartbeatTable::bytes_for(topology.local_size));
  LeaderHub hub(2, 1, true);
  FakeState state;
  state.set(make_rank(1));
  WatchdogOptions options;
  options.abort = transport->wait_policy().abort;
  auto watchdog = std::make_unique<Watchdog>(topology, state, table->bytes(), nullptr,
                                             hub.address(), std::move(options));
  const auto start = std::chrono::steady_clock::now();
  const auto exchange_until = [&](auto&& is_done) {
    while (!is_done() && std::chrono::steady_clock::now() - start < 30s) {
      hub.exchange({}, std::chrono::steady_clock::now(), wall_time_now());
      std::this_thread::sleep_for(1ms);
    }
    return is_done();
  };
  // Directly after a round, so that the next round is the last.
  ASSERT_TRUE(exchange_until([&] { return hub.nodes()[1].report.has_value(); }));
  transport->abort("disk full");
  watchdog.reset();
  ASSERT_TRUE(
      exchange_until([&] { return hub.nodes()[1].report->ranks[0].liveness == Liveness::kEnded; }));
  EXPECT_THAT(hub.nodes()[1].report->end_reason, HasSubstr("disk full"));
}

TEST(Watchdog, NewLeaderDoesNotSearchDepartedHub) {
  WatchedJob job(4, 2, true, 50ms);
  job.await([&] { return job.sees_all(); });
  job.leave(1);
  job.leave(0);
  job.leave(2);
  std::this_thread::sleep_for(
      500ms);  // rank 3 is the leader; the time exceeds its search for the hub
  EXPECT_THAT(job.logged(), IsEmpty());
  EXPECT_TRUE(job.exits().empty());
}

TEST(Watchdog, ReportsWaitForAllAfterRankZeroLeft) {
  WatchedJob job(4, 2);
  job.await([&] { return job.sees_all(); });
  job.leave(0);
  for (int rank : {2, 3}) job.set(rank, make_rank(rank, "late", wall_time_now()));
  job.await([&] { return job.abort().is_raised(); });
  EXPECT_THAT(job.abort().text(), AllOf(HasSubstr("'late'"), HasSubstr("rank 0 ")));
}

// The ranks of the other nodes may be alive, although their snapshots no longer arrive.
TEST(Watchdog, DoesNotBlameOtherNodesAfterRankZeroLeft) {
  WatchedJob job(4, 2);
  job.await([&] { return job.sees_all(); });
  job.leave(0);
  const auto wait_in_set = [&](int rank, const std::string& process_set) {
    RankSnapshot waiting = make_rank(rank, "partial", wall_time_now());
    waiting.open[0].process_set = process_set;
    job.set(rank, waiting);
  };
  wait_in_set(1, "{1, 2}");
  wait_in_set(3, "{1, 3}");
  std::this_thread::sleep_for(3500ms);  // longer than the silence limit
  EXPECT_THAT(job.logged(), IsEmpty());
  EXPECT_FALSE(job.abort().is_raised());
}

TEST(Watchdog, SupportsManyStartsAndStops) {
  for (int round = 0; round < 20; ++round) WatchedJob job(4, round % 2 == 0 ? 2 : 4);
}

}  // namespace
}  // namespace horo::observe
