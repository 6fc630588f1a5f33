// Groups, objects, callbacks and join() of process sets that overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>

#include "horo/testing.h"
#include "tests/api/error_text.h"
#include "tests/api/operations/set_checks.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

class ProcessSetOperations : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  /// Nodes of 1, 2 and all ranks.
  static RunOptions options() {
    return {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(std::get<1>(GetParam()))}};
  }
};
INSTANTIATE_TEST_SUITE_P(RanksAndNodes, ProcessSetOperations,
                         ::testing::Combine(::testing::ValuesIn(tested_rank_counts({3, 4, 5, 6})),
                                            ::testing::Values(0, 1, 2)));

/// All but the last, all but the first, and the two at the ends.
std::vector<ProcessSet> overlapping_sets(Context& ctx) {
  const int last = ctx.size() - 1;
  std::vector<ProcessSet> sets;
  sets.push_back(ctx.new_process_set(ranks_where(ctx.size(), [&](int r) { return r != last; })));
  sets.push_back(ctx.new_process_set(ranks_where(ctx.size(), [](int r) { return r != 0; })));
  sets.push_back(ctx.new_process_set({0, last}));
  return sets;
}

/// Calls `check(set, salt)` for the sets of this rank, in an order that differs between ranks.
template <typename Check>
void in_each_set(Context& ctx, Check check) {
  std::vector<ProcessSet> sets = overlapping_sets(ctx);
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (sets[i].includes_me()) check(sets[i], static_cast<int>(i) * 7);
}

TEST_P(ProcessSetOperations, GroupIsReducedAndBroadcastInOneLaunch) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        in_each_set(ctx, [&](ProcessSet& set, int salt) {
          std::vector<float> a(1001);
          std::vector<double> b(7);
          std::vector<std::int64_t> c(3);
          const std::vector<NamedTensor> group = {
              {"a", TensorView(a)}, {"b", TensorView(b)}, {"c", TensorView(c)}};
          const auto fill = [&](int step) {
            for (std::size_t i = 0; i < a.size(); ++i) a[i] = set_value(ctx.rank(), i, salt + step);
            for (std::size_t i = 0; i < b.size(); ++i) b[i] = set_value(ctx.rank(), i, salt - step);
            for (std::size_t i = 0; i < c.size(); ++i) c[i] = ctx.rank() * 100 + salt + step;
          };
          for (int step = 0; step < 3; ++step) {
            fill(step);
            const std::uint64_t before = set.counters().collectives;
            set.allreduce_group(group, {.name = "group", .op = ReduceOp::kSum});
            EXPECT_EQ(set.counters().collectives - before, 1u);
            for (std::size_t i = 0; i < a.size(); ++i)
              ASSERT_EQ(a[i], sum_over(set.ranks(), i, salt + step)) << i;
            for (std::size_t i = 0; i < b.size(); ++i)
              ASSERT_EQ(b[i], static_cast<double>(sum_over(set.ranks(), i, salt - step))) << i;
            const std::int64_t sum =
                100 * std::accumulate(set.ranks().begin(), set.ranks().end(), 0) +
                (salt + step) * set.size();
            ASSERT_EQ(c[2], sum);
          }
          for (int root = 0; root < set.size(); ++root) {
            fill(root);
            set.broadcast_group_async(group, {.root = root}).wait();
            const int of_root = set.ranks()[static_cast<std::size_t>(root)];
            for (std::size_t i = 0; i < a.size(); ++i)
              ASSERT_EQ(a[i], set_value(of_root, i, salt + root)) << i;
            ASSERT_EQ(b[6], set_value(of_root, 6, salt - root));
            ASSERT_EQ(c[2], of_root * 100 + salt + root);
          }
        });
      },
      options());
}

std::vector<std::byte> object_of(int job_rank, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(job_rank) * 37 + i);
  return bytes;
}

TEST_P(ProcessSetOperations, ObjectsReachMembers) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        in_each_set(ctx, [&](ProcessSet& set, int salt) {
          const auto size_of = [&](int job_rank) {
            return static_cast<std::size_t>((job_rank * 5 + salt) % 11) * 300;
          };
          for (int root = 0; root < set.size(); ++root) {
            const int of_root = set.ranks()[static_cast<std::size_t>(root)];
            std::vector<std::byte> object = object_of(ctx.rank(), size_of(ctx.rank()));
            set.broadcast_object(object, {.name = "model", .root = root});
            ASSERT_EQ(object, object_of(of_root, size_of(of_root)));
          }
          const auto objects =
              set.allgather_object(object_of(ctx.rank(), size_of(ctx.rank())), {.name = "state"});
          ASSERT_EQ(objects.size(), static_cast<std::size_t>(set.size()));
          for (std::size_t r = 0; r < objects.size(); ++r)
            ASSERT_EQ(objects[r], object_of(set.ranks()[r], size_of(set.ranks()[r])));
        });
      },
      options());
}

TEST_P(ProcessSetOperations, CallbackMaySubmitToOtherSet) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        std::vector<ProcessSet> sets = overlapping_sets(ctx);
        constexpr int kLinks = 20;
        std::vector<float> x(101);
        std::promise<void> finished;
        // Continues with the next set as long as this rank is a member; all ranks of the sets do
        // the same.
        std::function<void(int)> link = [&](int k) {
          if (k == kLinks) return finished.set_value();
          ProcessSet& set = sets[static_cast<std::size_t>(k) % sets.size()];
          if (!set.includes_me()) return link(k + 1);
          x.assign(x.size(), set_value(ctx.rank(), 0, k));
          set.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum})
              .then([&, k](const std::exception_ptr& error) {
                EXPECT_EQ(error, nullptr);
                EXPECT_EQ(x[100], sum_over(set.ranks(), 0, k));
                link(k + 1);
              });
        };
        link(0);
        finished.get_future().wait();
      },
      options());
}

TEST_P(ProcessSetOperations, CallbackReceivesErrorOfSet) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        in_each_set(ctx, [&](ProcessSet& set, int) {
          std::vector<float> x(set.rank() == 1 ? 5 : 4);
          std::promise<std::exception_ptr> outcome;
          set.allreduce_async(TensorView(x), {.name = "x"})
              .then([&](const std::exception_ptr& error) { outcome.set_value(error); });
          const std::string text = error_text<MismatchError>(
              [&] { std::rethrow_exception(outcome.get_future().get()); });
          EXPECT_THAT(text, HasSubstr("rank " + std::to_string(set.ranks()[1]) + " (host"));
          check_reductions(set, 3);
        });
      },
      options());
}

/// How many steps a member has data for.
int steps_of(int job_rank) { return 2 + job_rank * 3 % 5; }

TEST_P(ProcessSetOperations, MembersWithLessDataJoin) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        in_each_set(ctx, [&](ProcessSet& set, int salt) {
          for (int step = 0; step < steps_of(ctx.rank()); ++step) {
            const std::vector<int> live = [&] {
              std::vector<int> found;
              for (const int rank : set.ranks())
                if (steps_of(rank) > step) found.push_back(rank);
              return found;
            }();
            std::vector<float> x(1001), y(3, static_cast<float>(ctx.rank()));
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = set_value(ctx.rank(), i, salt + step);
            const std::vector<NamedTensor> group = {{"x", TensorView(x)}, {"y", TensorView(y)}};
            set.allreduce_group(group, {.op = ReduceOp::kSum});
            for (std::size_t i = 0; i < x.size(); ++i)
              ASSERT_EQ(x[i], sum_over(live, i, salt + step)) << i;
            std::vector<float> mean(5, static_cast<float>(ctx.rank() * 60));
            set.allreduce(TensorView(mean), {.name = "mean"});
            const int sum = std::accumulate(live.begin(), live.end(), 0);
            ASSERT_FLOAT_EQ(mean[4],
                            static_cast<float>(sum * 60) / static_cast<float>(live.size()));
          }
          const int last = set.join();
          EXPECT_GE(last, 0);
          EXPECT_LT(last, set.size());
          check_reductions(set, salt + 1);
        });
      },
      options());
}

TEST_P(ProcessSetOperations, JoinReturnsRankInSet) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        ProcessSet set = ctx.new_process_set(ranks_where(ctx.size(), [](int r) { return r != 1; }));
        if (!set.includes_me()) return;
        for (int last = 0; last < set.size(); ++last) {
          if (set.rank() == last) {
            // Complete once all others have joined.
            std::vector<std::int32_t> one(3, 1);
            set.allreduce(TensorView(one), {.name = "who is left", .op = ReduceOp::kSum});
            EXPECT_EQ(one[2], 1);
          }
          EXPECT_EQ(set.join(), last);
        }
      },
      options());
}

TEST_P(ProcessSetOperations, UnsupportedOperationNamesRankInJob) {
  run_ranks(
      ranks(),
      [](Context& ctx) {
        const int last = ctx.size() - 1;
        ProcessSet set = ctx.new_process_set(ranks_where(ctx.size(), [](int r) { return r != 0; }));
        ProcessSet other = ctx.new_process_set({0, last});
        if (set.includes_me()) {
          if (ctx.rank() != last) {
            std::vector<float> x(6, 1.0f);
            EXPECT_THAT(
                error_text<MismatchError>([&] { set.broadcast(TensorView(x), {.name = "w"}); }),
                AllOf(HasSubstr("rank " + std::to_string(last) + " (host"), HasSubstr("has joined"),
                      HasSubstr("'w'")));
          }
          // The join does not affect the other set.
          std::jthread beside([&] {
            if (other.includes_me()) check_reductions(other, 5);
          });
          (void)set.join();
        } else {
          check_reductions(other, 5);
        }
        ctx.barrier();
      },
      options());
}

}  // namespace
}  // namespace horo
