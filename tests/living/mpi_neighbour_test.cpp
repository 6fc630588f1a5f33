// Tests horo in a program that itself uses MPI with MPI_THREAD_MULTIPLE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "horo/mpi.h"
#include "tests/living/fork_checks.h"

namespace horo {
namespace {

// Uses tags, wildcards and collectives on MPI_COMM_WORLD for `rounds` rounds.
void own_traffic(int rounds) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < rounds; ++round) {
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;
    const int sent = rank * 1000 + round;
    int received = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&sent, 1, MPI_INT, next, round % 3, MPI_COMM_WORLD, &request);
    MPI_Status status;
    // A stray message of horo would match this receive.
    MPI_Recv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    ASSERT_EQ(received, previous * 1000 + round);
    ASSERT_EQ(status.MPI_TAG, round % 3);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int sum = 0;
    MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ASSERT_EQ(sum, round * size);
  }
}

TEST(MpiNeighbour, KeepsMessagesAndCollectivesOfProgram) {
  for (const char* ranks_per_node : {"0", "1"}) {
    setenv("HORO_RANKS_PER_NODE", ranks_per_node, 1);
    Context ctx = init();
    std::jthread neighbour([] { own_traffic(200); });
    std::vector<float> a(30000), b(10);
    const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
    GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum});
    for (int step = 0; step < 50; ++step) {
      std::fill(a.begin(), a.end(), static_cast<float>(ctx.rank() + step));
      std::vector<float> x(100, static_cast<float>(step));
      const Handle handle = ctx.allreduce_async(TensorView(x), {.name = "x"});
      sync.exchange();
      handle.wait();
      ASSERT_EQ(x[99], static_cast<float>(step));
      ASSERT_EQ(a[29999],
                static_cast<float>(ctx.size() * step + ctx.size() * (ctx.size() - 1) / 2));
    }
  }
  unsetenv("HORO_RANKS_PER_NODE");
}

std::ptrdiff_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

// Counts the files in /dev/shm that horo has created for this process.
std::ptrdiff_t named_regions() {
  std::ptrdiff_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("horo." + std::to_string(getpid()) + ".");
  return count;
}

TEST(MpiNeighbour, RepeatedInitLeaksNothing) {
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t descriptors = 0;
  for (int round = 0; round < 50; ++round) {
    {
      Context ctx = init();
      ProcessSet set = ctx.new_process_set({0});
      std::vector<float> x(1000, static_cast<float>(ctx.rank()));
      const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
      GradientSync sync(ctx, gradients);
      sync.exchange();
      ctx.barrier();
      if (round % 2 == 0) ctx.shutdown();
      if (round % 4 == 0) ctx.shutdown();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (round == 4) {  // MPI has opened its own descriptors by then
      threads = entries_of("/proc/self/task");
      descriptors = entries_of("/proc/self/fd");
    }
  }
  EXPECT_LE(entries_of("/proc/self/task"), threads);
  EXPECT_LE(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(named_regions(), 0);
}

// Open MPI gives a new communicator the lowest number that is free on all its ranks, so a leak
// raises the number.
TEST(MpiNeighbour, FreesCommunicators) {
  const auto number_of_next = [] {
    MPI_Comm probe = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &probe);
    const int number = MPI_Comm_c2f(probe);
    MPI_Comm_free(&probe);
    return number;
  };
  int first = 0;
  for (int round = 0; round < 20; ++round) {
    {
      Context ctx = init();
      ProcessSet set = ctx.new_process_set({0});
      set.close();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (round == 1) first = number_of_next();
  }
  EXPECT_LE(number_of_next(), first + 1);
}

TEST(MpiNeighbour, SupportsTwoContexts) {
  std::optional<Context> first = init();
  Context second = init();
  std::vector<float> x(1000, static_cast<float>(second.rank())), y(1000, 1);
  const Handle a = first->allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kMax});
  second.allreduce(TensorView(y), {.name = "x", .op = ReduceOp::kSum});
  a.wait();
  first.reset();
  EXPECT_EQ(x[0], static_cast<float>(second.size() - 1));
  EXPECT_EQ(y[0], static_cast<float>(second.size()));
  second.barrier();
}

TEST(MpiNeighbour, SupportsInitAfterFailedInit) {
  setenv("HORO_TIMEOUT", "soon", 1);
  EXPECT_THROW(init(), InvalidArgument);
  unsetenv("HORO_TIMEOUT");
  Context ctx = init();
  ctx.barrier();
}

TEST(MpiNeighbour, SupportsForkBesideMpi) {
  Context ctx = init();
  ProcessSet set =
      ctx.new_process_set(ctx.size() > 1 ? std::vector<int>{0, 1} : std::vector<int>{0});
  std::vector<float> g(100, 1), x(1000, 1);
  const std::vector<NamedTensor> gradients = {{"g", TensorView(g)}};
  GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum});
  for (const bool and_exec : {false, true}) {
    const Handle pending = ctx.allreduce_async(TensorView(x), {.name = "x"});
    const auto work = [&] {
      int result = set.includes_me() ? count_accepted(ctx, set, sync, pending) : 0;
      result += is_not_refused([] { (void)init(); });
      { const GradientSync gone = std::move(sync); }
      { const ProcessSet gone = std::move(set); }
      { const Context gone = std::move(ctx); }
      return result;
    };
    ASSERT_EQ(exit_code_of_child(work, and_exec), 0);
    pending.wait();
    sync.exchange();
    ctx.barrier();
  }
  EXPECT_EQ(x[999], 1);
}

}  // namespace
}  // namespace horo
