#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "horo/runtime/runtime.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"
#include "tests/api/operations/set_checks.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

RunOptions on_nodes_of(int ranks_per_node) {
  return {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(ranks_per_node)}};
}

class ProcessSetShapes : public ::testing::TestWithParam<std::tuple<int, int>> {};
INSTANTIATE_TEST_SUITE_P(RanksAndNodes, ProcessSetShapes,
                         ::testing::Combine(::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 7,
                                                                                    8})),
                                            ::testing::Values(0, 1, 2, 3)));

TEST_P(ProcessSetShapes, DisjointAndOverlappingSetsReduce) {
  const auto [ranks, ranks_per_node] = GetParam();
  run_ranks(
      ranks,
      [](Context& ctx) {
        const int size = ctx.size();
        std::vector<ProcessSet> sets;
        sets.push_back(ctx.new_process_set(ranks_where(size, [](int r) { return r % 2 == 0; })));
        if (size > 1)
          sets.push_back(ctx.new_process_set(ranks_where(size, [](int r) { return r % 2 == 1; })));
        sets.push_back(ctx.new_process_set(ranks_where(size, [](int) { return true; })));
        sets.push_back(ctx.new_process_set({size - 1}));
        sets.push_back(ctx.new_process_set(ranks_where(size, [](int r) { return r >= 1; }).empty()
                                               ? std::vector<int>{0}
                                               : ranks_where(size, [](int r) { return r >= 1; })));
        for (std::size_t i = 0; i < sets.size(); ++i) {
          const std::vector<int>& members = sets[i].ranks();
          const bool is_in = std::ranges::find(members, ctx.rank()) != members.end();
          EXPECT_EQ(sets[i].includes_me(), is_in);
          EXPECT_EQ(sets[i].size(), static_cast<int>(members.size()));
          if (is_in) {
            EXPECT_EQ(sets[i].rank(), sets[i].rank_of(ctx.rank()));
          }
          check_set(sets[i], static_cast<int>(i) * 7);
        }
        std::vector<std::int32_t> x(3, 1);
        ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
        EXPECT_EQ(x[2], size);
      },
      on_nodes_of(ranks_per_node));
}

TEST_P(ProcessSetShapes, ThreadsUseOverlappingSetsInOppositeOrders) {
  const auto [ranks, ranks_per_node] = GetParam();
  run_ranks(
      ranks,
      [](Context& ctx) {
        const int size = ctx.size();
        ProcessSet all = ctx.new_process_set(ranks_where(size, [](int) { return true; }));
        ProcessSet most =
            ctx.new_process_set(ranks_where(size, [&](int r) { return r != 1 || size == 2; }));
        const auto use = [&](bool all_first, int salt) {
          ProcessSet& first = all_first ? all : most;
          ProcessSet& second = all_first ? most : all;
          const std::string name = "x" + std::to_string(salt);
          for (int round = 0; round < 5; ++round) {
            for (ProcessSet* set : {&first, &second}) {
              if (!set->includes_me()) continue;
              std::vector<float> x(1001, set_value(ctx.rank(), 0, salt + round));
              set->allreduce(TensorView(x), {.name = name, .op = ReduceOp::kSum});
              EXPECT_EQ(x[1000], sum_over(set->ranks(), 0, salt + round));
            }
          }
        };
        // The threads of one rank use the sets in opposite orders. Either thread may be ahead.
        std::jthread other([&] { use(true, 100); });
        use(false, 200);
      },
      on_nodes_of(ranks_per_node));
}

TEST(ProcessSet, MembersMayLeaveAtDifferentTimes) {
  run_ranks(3,
            [](Context& ctx) {
              std::optional<ProcessSet> set(ctx.new_process_set({0, 1, 2}));
              if (ctx.rank() != 2) set.reset();
              std::this_thread::sleep_for(std::chrono::seconds(3));
              std::vector<float> x(3, 1);
              ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
              EXPECT_EQ(x[0], 3);
            },
            {.environment = {"HORO_TIMEOUT=2s", "HORO_STALL_WARNING=1s"}});
}

TEST(ProcessSet, BlockingOperationsOfTwoSetsDoNotDeadlock) {
  run_ranks(2, [](Context& ctx) {
    ProcessSet a = ctx.new_process_set({0, 1});
    ProcessSet b = ctx.new_process_set({0, 1});
    std::vector<float> x(10, 1), y(10, 2);
    const auto first = (ctx.rank() == 0 ? a : b).allreduce_async(TensorView(x), {.name = "t"});
    const auto second = (ctx.rank() == 0 ? b : a).allreduce_async(TensorView(y), {.name = "t"});
    first.wait();
    second.wait();
    // Set a reduces rank 0's x with rank 1's y.
    EXPECT_EQ(x[0], 1.5f);
    EXPECT_EQ(y[0], 1.5f);
  });
}

TEST(ProcessSet, NamesDistinguishSetsOfSameRanks) {
  run_ranks(3, [](Context& ctx) {
    const ProcessSet first = ctx.new_process_set({0, 1});
    const ProcessSet other = ctx.new_process_set({0, 1, 2});
    const ProcessSet second = ctx.new_process_set({0, 1});
    EXPECT_EQ(other.runtime()->topology().set_name(), "{0, 1, 2}");
    if (ctx.rank() == 2) return;
    EXPECT_EQ(first.runtime()->topology().set_name(), "{0, 1}");
    EXPECT_EQ(second.runtime()->topology().set_name(), "{0, 1}#2");
    EXPECT_EQ(second.name(), "{0, 1}");
  });
}

TEST(ProcessSet, CreatesAndDestroysFiftySets) {
  run_ranks(
      4,
      [](Context& ctx) {
        std::vector<float> own(1000);
        for (int round = 0; round < 50; ++round) {
          const auto background = ctx.allreduce_async(TensorView(own), {.name = "background"});
          const int left_out = round % 5;  // 4: nobody
          ProcessSet set =
              ctx.new_process_set(ranks_where(4, [&](int r) { return r != left_out; }));
          if (set.includes_me()) {
            std::vector<float> x(100, static_cast<float>(ctx.rank() + 1));
            set.allreduce(TensorView(x), {.op = ReduceOp::kSum});
            EXPECT_EQ(x[99], sum_over(set.ranks(), 0) / 5);
          }
          if (round % 2 == 0) set.close();
          background.wait();
        }
      },
      on_nodes_of(2));
}

TEST(ProcessSet, RejectsRankThatIsNotAMember) {
  run_ranks(4, [](Context& ctx) {
    ProcessSet set = ctx.new_process_set({0, 2});
    EXPECT_EQ(set.ranks(), (std::vector<int>{0, 2}));
    EXPECT_EQ(set.size(), 2);
    EXPECT_EQ(set.name(), "{0, 2}");
    if (ctx.rank() == 3) {
      EXPECT_FALSE(set.includes_me());
      const std::string expected = "rank 3 is not a member of the process set {0, 2}";
      std::vector<float> x(6), y(12);
      const NamedTensor gradient{"g", TensorView(x)};
      const std::function<void()> calls[] = {
          [&] { set.allreduce(TensorView(x)); },
          [&] { (void)set.allreduce_async(TensorView(x)); },
          [&] { set.broadcast(TensorView(x)); },
          [&] { set.allgather(TensorView(x), TensorView(y)); },
          [&] { set.reduce_scatter(TensorView(x), TensorView(y)); },
          [&] { set.alltoall(TensorView(x), TensorView(y)); },
          [&] { set.barrier(); },
          [&] { (void)set.allocate(10); },
          [&] { (void)set.rank(); },
          [&] { (void)set.new_process_set({0}); },
          [&] { GradientSync(set, std::span(&gradient, 1)); },
      };
      for (const auto& call : calls) EXPECT_EQ(error_text<InvalidArgument>(call), expected);
      set.close();
    }
    EXPECT_THAT(error_text<InvalidArgument>([&] { (void)set.rank_of(1); }),
                HasSubstr("rank 1 is not a member of the process set {0, 2}"));
  });
}

TEST(ProcessSet, MismatchShowsBothListsAndNextSetWorks) {
  run_ranks(3, [](Context& ctx) {
    const std::string text = error_text<MismatchError>([&] {
      (void)ctx.new_process_set(ctx.rank() == 2 ? std::vector<int>{1, 2} : std::vector<int>{0, 1});
    });
    EXPECT_THAT(text, HasSubstr("rank 0 (host thread-node-0) requested the process set {0, 1}"));
    EXPECT_THAT(text, HasSubstr("rank 2 (host thread-node-0) requested {1, 2}"));
    ProcessSet set = ctx.new_process_set({0, 2});
    check_set(set, 1);
  });
}

TEST(ProcessSet, RejectsInvalidLists) {
  run_ranks(3, [](Context& ctx) {
    const auto error_for = [&](std::vector<int> ranks) {
      return error_text<InvalidArgument>([&] { (void)ctx.new_process_set(std::move(ranks)); });
    };
    EXPECT_THAT(error_for({}), HasSubstr("at least one rank"));
    EXPECT_THAT(error_for({1, 0}), HasSubstr("{1, 0} must ascend"));
    EXPECT_THAT(error_for({1, 1}), HasSubstr("{1, 1} must ascend"));
    EXPECT_THAT(error_for({0, 3}), HasSubstr("{0, 3} are among the 3 ranks 0 ... 2"));
    EXPECT_THAT(error_for({-1, 2}), HasSubstr("{-1, 2}"));
    ctx.barrier();
  });
}

TEST(ProcessSet, NamesMissingRank) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=1s", "HORO_STALL_WARNING=100ms"};
  const auto rank_1_is_elsewhere = [](Context& ctx) {
    if (ctx.rank() == 1) {
      // Later than the others, whose operation is then the first to expire.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ctx.barrier({.name = "never"});
    } else {
      (void)ctx.new_process_set({0, 2});
    }
  };
  EXPECT_THAT(
      error_text<CommunicationError>([&] { run_ranks(3, rank_1_is_elsewhere, options); }),
      ::testing::AllOf(HasSubstr("'process_set.0'"), HasSubstr("rank 1 (host thread-node-0"),
                       HasSubstr("in barrier 'never'"), HasSubstr("HORO_TIMEOUT is 1 s")));
}

TEST(ProcessSet, MismatchNamesRanksOfJobAndSetContinues) {
  run_ranks(4, [](Context& ctx) {
    ProcessSet set = ctx.new_process_set({1, 3});
    if (!set.includes_me()) return;
    std::vector<float> x(ctx.rank() == 3 ? 18 : 17);
    const std::string text =
        error_text<MismatchError>([&] { set.allreduce(TensorView(x), {.name = "w"}); });
    EXPECT_THAT(text, HasSubstr("rank 1 (host"));
    EXPECT_THAT(text, HasSubstr("rank 3 (host"));
    std::vector<float> shard(50);
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { set.reduce_scatter(TensorView(x), TensorView(shard), {.name = "s"}); }),
                HasSubstr("rank " + std::to_string(ctx.rank()) + " gets 9 of"));
    check_set(set, 3);
  });
}

TEST(ProcessSet, DepartedMemberFailsItsOperations) {
  run_ranks(3, [](Context& ctx) {
    std::optional<ProcessSet> set = ctx.new_process_set({1, 2});
    if (ctx.rank() == 1) {
      set.reset();
    } else if (ctx.rank() == 2) {
      std::vector<float> x(4);
      EXPECT_THAT(error_text<ShutdownError>([&] { set->allreduce(TensorView(x), {.name = "x"}); }),
                  HasSubstr("rank 1 (host thread-node-0) has shut down"));
    }
    ctx.barrier();
  });
}

TEST(ProcessSet, MayBeDestroyedInAnyOrder) {
  run_ranks(4, [](Context& ctx) {
    std::vector<std::optional<ProcessSet>> sets(6);
    for (auto& set : sets) set = ctx.new_process_set({0, 1, 2, 3});
    for (std::size_t i = 0; i < 4; ++i)
      sets[(i * static_cast<std::size_t>(2 * ctx.rank() + 1)) % 4].reset();
    check_set(*sets[4], 5);
    ctx.shutdown();
    std::vector<float> x(4);
    EXPECT_THROW(sets[5]->allreduce(TensorView(x)), ShutdownError);
    EXPECT_THROW((void)ctx.new_process_set({0}), ShutdownError);
  });
}

TEST(ProcessSet, ReportsClosedSet) {
  run_ranks(2, [](Context& ctx) {
    ProcessSet set = ctx.new_process_set({0, 1});
    set.close();
    set.close();
    std::vector<float> x(4);
    EXPECT_EQ(error_text<ShutdownError>([&] { set.allreduce(TensorView(x)); }),
              "the process set {0, 1} has been closed");
    ctx.barrier();
  });
}

TEST(ProcessSet, MoveKeepsSet) {
  run_ranks(2, [](Context& ctx) {
    ProcessSet first = ctx.new_process_set({0, 1});
    ProcessSet moved = std::move(first);
    std::vector<float> x(4);
    EXPECT_THAT(
        error_text<ShutdownError>([&] { first.allreduce(TensorView(x)); }),  // NOLINT: on purpose
        HasSubstr("moved from"));
    check_set(moved, 2);
    moved = ctx.new_process_set({0});
    check_set(moved, 3);
  });
}

TEST(ProcessSet, NestedSetCountsRanksOfParent) {
  run_ranks(
      7,
      [](Context& ctx) {
        ProcessSet odd = ctx.new_process_set({1, 3, 5});
        if (!odd.includes_me()) return;
        ProcessSet outer = odd.new_process_set({0, 2});
        EXPECT_EQ(outer.ranks(), (std::vector<int>{1, 5}));
        EXPECT_EQ(outer.includes_me(), ctx.rank() != 3);
        check_set(outer, 4);
      },
      on_nodes_of(3));
}

TEST(ProcessSet, GradientSyncOutlivesProcessSet) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(1000, 1);
    std::optional<GradientSync> sync;
    {
      ProcessSet set = ctx.new_process_set({0, 2});
      const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
      if (set.includes_me()) sync.emplace(set, gradients);
    }
    if (sync) sync->exchange();
    EXPECT_EQ(x[0], 1);
  });
}

TEST(ProcessSet, FailedRankEndsWaitsInItsSets) {
  RunOptions options;
  EXPECT_THAT(error_text<Error>([&] {
                run_ranks(
                    4,
                    [](Context& ctx) {
                      ProcessSet set = ctx.new_process_set({0, 1, 3});
                      if (ctx.rank() == 3) throw std::runtime_error("diverged");
                      std::vector<float> x(10);
                      if (set.includes_me()) {
                        EXPECT_THROW(set.allreduce(TensorView(x)), Error);
                      }
                      EXPECT_THROW(ctx.barrier(), CommunicationError);
                    },
                    options);
              }),
              HasSubstr("rank 3: diverged"));
}

}  // namespace
}  // namespace horo
