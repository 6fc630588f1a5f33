#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

TEST(Callbacks, ReceiveErrorAfterCompletion) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(4, 1.0f);
    std::promise<float> done;
    ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum})
        .then([&](const std::exception_ptr& error) {
          EXPECT_EQ(error, nullptr);
          done.set_value(x[3]);
        });
    EXPECT_EQ(done.get_future().get(), 3.0f);

    std::vector<float> y(ctx.rank() == 1 ? 5 : 4);
    std::promise<bool> failed;
    ctx.allreduce_async(TensorView(y), {.name = "y"}).then([&](const std::exception_ptr& error) {
      failed.set_value(error != nullptr);
    });
    EXPECT_TRUE(failed.get_future().get());
  });
}

TEST(Callbacks, ExceptionDoesNotAffectOthers) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(4, 1.0f), y(4, 2.0f);
    std::atomic<int> calls{0};
    const Handle first = ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    first.then([](const std::exception_ptr&) { throw std::runtime_error("the callback's own"); });
    first.then([&](const std::exception_ptr&) { ++calls; });
    const Handle second = ctx.allreduce_async(TensorView(y), {.name = "y", .op = ReduceOp::kSum});
    first.wait();
    second.wait();
    EXPECT_EQ(y[0], 4.0f);
    ctx.barrier();
    while (calls == 0) std::this_thread::yield();
  });
}

TEST(Callbacks, MaySubmitOperations) {
  run_ranks(3, [](Context& ctx) {
    constexpr int kLinks = 50;
    std::vector<float> x(3, 1.0f);
    std::promise<void> finished;
    std::function<void(int)> link = [&](int k) {
      ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum})
          .then([&, k](const std::exception_ptr& error) {
            EXPECT_EQ(error, nullptr);
            x.assign(3, static_cast<float>(k));
            k + 1 < kLinks ? link(k + 1) : finished.set_value();
          });
    };
    link(0);
    finished.get_future().wait();
  });
}

TEST(Callbacks, RunWhileAnotherThreadWaits) {
  // A thread that waits for another operation completes the operation with the callback.
  run_ranks(2, [](Context& ctx) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x(3, 1.0f), y(3, 1.0f);
      std::promise<std::thread::id> where;
      ctx.allreduce_async(TensorView(x), {.name = "x"}).then([&](const std::exception_ptr&) {
        where.set_value(std::this_thread::get_id());
      });
      ctx.allreduce(TensorView(y), {.name = "y"});
      (void)where.get_future().get();
    }
  });
}

TEST(Callbacks, MustNotWait) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(3, 1.0f), y(3, 1.0f);
    std::promise<bool> has_refused;
    ctx.allreduce_async(TensorView(x), {.name = "x"}).then([&](const std::exception_ptr&) {
      try {
        ctx.allreduce(TensorView(y), {.name = "y"});
        has_refused.set_value(false);
      } catch (const InvalidArgument&) {
        has_refused.set_value(true);
      }
    });
    EXPECT_TRUE(has_refused.get_future().get());
  });
}

// Nothing is submitted, so the other rank receives no request.
TEST(Callbacks, BlockingCallsOfPlansSetsAndArenasThrow) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(3, 1.0f), g(5, 1.0f);
    const std::vector<NamedTensor> gradients = {{"g", TensorView(g)}};
    GradientSync sync(ctx, gradients, {.find_unused = true, .weighted = true});
    const std::vector<std::function<void()>> calls = {
        [&] { sync.wait(); },
        [&] { sync.exchange(); },
        [&] { (void)sync.join(); },
        [&] { sync.update(gradients); },
        [&] { (void)sync.unused_by_rank(); },
        [&] { sync.load_compression_state({}); },
        [&] { GradientSync(ctx, gradients, {.name = "another"}); },
        [&] {
          (void)ctx.new_process_set({0, 1});
        },
        [&] { (void)ctx.allocate(1 << 12); },
        [&] { (void)ctx.join(); },
        [&] { ctx.barrier(); },
        [&] { ctx.shutdown(); }};
    std::promise<std::vector<std::string>> texts;
    ctx.allreduce_async(TensorView(x), {.name = "x"}).then([&](const std::exception_ptr&) {
      std::vector<std::string> found;
      for (const auto& call : calls) {
        try {
          if (ctx.rank() == 0) call();
          found.emplace_back("it was allowed");
        } catch (const InvalidArgument& error) {
          found.emplace_back(error.what());
        }
      }
      texts.set_value(found);
    });
    const std::vector<std::string> found = texts.get_future().get();
    for (std::size_t k = 0; ctx.rank() == 0 && k < found.size(); ++k) {
      EXPECT_NE(found[k].find("a completion callback must not wait for an operation"),
                std::string::npos)
          << "call " << k << ": " << found[k];
    }
    EXPECT_TRUE(sync.exchange().was_exchanged);
    EXPECT_EQ(g[4], 1.0f);
    ProcessSet set = ctx.new_process_set({0, 1});
    set.barrier();
  });
}

TEST(Callbacks, SubmissionDuringShutdownFails) {
  run_ranks(2, [](Context& ctx) {
    auto x = std::make_shared<std::vector<float>>(3, 1.0f);
    auto outcome = std::make_shared<std::promise<std::exception_ptr>>();
    // No other rank submits this operation. It ends when the other rank shuts down.
    if (ctx.rank() == 0)
      ctx.allreduce_async(TensorView(*x), {.name = "lonely"})
          .then([&ctx, x, outcome](const std::exception_ptr& error) {
            EXPECT_NE(error, nullptr);
            ctx.allreduce_async(TensorView(*x), {.name = "again"})
                .then(
                    [x, outcome](const std::exception_ptr& second) { outcome->set_value(second); });
          });
    ctx.shutdown();
    if (ctx.rank() == 0) {
      EXPECT_THROW(std::rethrow_exception(outcome->get_future().get()), ShutdownError);
    }
  });
}

TEST(Callbacks, OfCompleteOperationRunAtOnce) {
  run_ranks(1, [](Context& ctx) {
    std::vector<float> x(3, 1.0f);
    const Handle handle = ctx.allreduce_async(TensorView(x));
    handle.wait();
    bool has_run = false;
    handle.then([&](const std::exception_ptr&) { has_run = true; });
    EXPECT_TRUE(has_run);
    has_run = false;
    Handle().then([&](const std::exception_ptr&) { has_run = true; });
    EXPECT_TRUE(has_run);
  });
}

// Submits "x" on all ranks; rank 1 lets go of its only Context in the callback, as
// `destroy_context` does. The other ranks' next operation must end with the reason.
void expect_job_ends(
    Context& ctx,
    const std::function<void(const Handle&, std::shared_ptr<Context>)>& destroy_context) {
  const int rank = ctx.rank();
  auto own = std::make_shared<Context>(std::move(ctx));
  const std::weak_ptr<Runtime> runtime = own->runtime();
  std::vector<float> x(3, 1.0f);
  const Handle handle = own->allreduce_async(x, {.name = "x"});
  if (rank == 1) {
    destroy_context(handle, std::move(own));
    while (!runtime.expired()) std::this_thread::yield();
    return;
  }
  handle.wait();
  EXPECT_THAT(error_text<CommunicationError>([&] { own->barrier(); }),
              AllOf(HasSubstr("rank 1 (host"),
                    HasSubstr("destroyed its Context in a completion callback")));
}

TEST(Callbacks, DestroyingContextEndsJobWithReason) {
  run_ranks(3, [](Context& ctx) {
    expect_job_ends(ctx, [](const Handle& handle, std::shared_ptr<Context> own) {
      std::promise<void> is_destroyed;
      handle.then([&](const std::exception_ptr&) {
        own.reset();
        is_destroyed.set_value();
      });
      is_destroyed.get_future().wait();
    });
  });
}

TEST(Callbacks, LastOwnerOfContextEndsJobWithReason) {
  run_ranks(3, [](Context& ctx) {
    expect_job_ends(ctx, [](const Handle& handle, std::shared_ptr<Context> own) {
      handle.then([own = std::move(own)](const std::exception_ptr&) {});
    });
  });
}

// A callback may destroy the objects that keep the runtime after shutdown().
TEST(Callbacks, MayDestroyLastGradientSyncAndProcessSet) {
  run_ranks(2, [](Context& ctx) {
    auto own = std::make_shared<Context>(std::move(ctx));
    const std::weak_ptr<Runtime> runtime = own->runtime();
    std::vector<float> g(3, 1.0f), x(3, 1.0f);
    const std::vector<NamedTensor> gradients = {{"g", g}};
    auto sync = std::make_unique<GradientSync>(*own, gradients);
    auto set = std::make_unique<ProcessSet>(own->new_process_set({0, 1}));
    const Handle handle = own->allreduce_async(x);
    std::promise<void> are_gone;
    handle.wait();
    own->shutdown();
    own.reset();
    handle.then([&](const std::exception_ptr&) {
      sync.reset();
      set.reset();
      are_gone.set_value();
    });
    are_gone.get_future().wait();
    while (!runtime.expired()) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace horo
