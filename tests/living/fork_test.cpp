#include <optional>

#include "horo/testing.h"
#include "tests/living/fork_checks.h"

namespace horo {
namespace {

// Rank 0 forks while an operation is pending and the other ranks wait for it. The child allocates
// memory. glibc allows that after fork(), but the allocator of AddressSanitizer does not: the child
// waits forever if another thread held a lock of that allocator at the time of fork().
void fork_during_operation(bool and_exec) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the allocator of AddressSanitizer cannot be used in a child of fork()";
#endif
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
        const int accepted = count_accepted(ctx, set, sync, *pending);
        // Runs the destructors of the inherited objects in the child.
        { const GradientSync gone = std::move(sync); }
        { const ProcessSet gone = std::move(set); }
        { const Context gone = std::move(ctx); }
        return accepted;
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

TEST(Fork, ChildIsRejectedAndParentContinues) { fork_during_operation(false); }
TEST(Fork, ChildMayCallExec) { fork_during_operation(true); }

TEST(Fork, ChildMayRunOwnJob) {
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
