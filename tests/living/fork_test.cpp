#include <optional>

#include "horo/testing.h"
#include "tests/living/fork_checks.h"

namespace horo {
namespace {

// Rank 0 forks while the others wait for it, and an operation is pending.
void fork_in_the_middle(bool and_exec) {
  testing::run_ranks(3, [&](Context& ctx) {
    ProcessSet set = ctx.new_process_set({0, 1, 2});
    const Arena arena = ctx.allocate(4096);
    std::pmr::vector<float> g(100, 1.0f, arena.resource());
    const std::vector<NamedTensor> gradients = {{"g", TensorView(g)}};
    GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum});
    std::vector<float> x(1000, static_cast<float>(ctx.rank()));
    std::optional<Handle> pending;
    if (ctx.rank() == 0) {
      pending = ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
      const auto work = [&] {
        const int unrefused = count_unrefused(ctx, set, sync, *pending);
        // The destructors of what the child has inherited.
        { const GradientSync gone = std::move(sync); }
        { const ProcessSet gone = std::move(set); }
        { const Context gone = std::move(ctx); }
        return unrefused;
      };
      EXPECT_EQ(exit_code_of_child(work, and_exec), 0);
      pending->wait();
    } else {
      ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    }
    EXPECT_EQ(x[999], 3.0f);
    sync.exchange();
    EXPECT_EQ(g[99], 3.0f);
    set.barrier();
  });
}

TEST(Fork, TheChildIsRefusedAndTheParentGoesOn) { fork_in_the_middle(false); }
TEST(Fork, TheChildMayCallExec) { fork_in_the_middle(true); }

TEST(Fork, AChildMayRunAJobOfItsOwnThatStartsThere) {
  testing::run_ranks(1, [](Context& ctx) {
    std::vector<float> x(10, 2);
    ctx.allreduce(TensorView(x));
  });
  const auto work = [] {
    int result = 1;
    testing::run_ranks(1, [&](Context& ctx) { result = ctx.size() - 1; });
    return result;
  };
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a child";
#endif
  EXPECT_EQ(exit_code_of_child(work), 0);
}

}  // namespace
}  // namespace horo
