#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <optional>
#include <thread>

#include "horo/mpi.h"
#include "tests/api/operations/set_checks.h"

namespace horo {
namespace {

TEST(ProcessSetMpi, WorksWithEveryAlgorithm) {
  for (const char* algorithm : {"auto", "ring", "hierarchical", "parameter_server", "mpi"}) {
    setenv("HORO_ALGORITHM", algorithm, 1);
    Context ctx = init();
    const int size = ctx.size();
    ProcessSet even = ctx.new_process_set(ranks_where(size, [](int r) { return r % 2 == 0; }));
    ProcessSet all = ctx.new_process_set(ranks_where(size, [](int) { return true; }));
    ProcessSet last = ctx.new_process_set(ranks_where(size, [&](int r) { return r >= size - 2; }));
    check_set(even, 1);
    check_set(all, 2);
    check_set(last, 3);
  }
  unsetenv("HORO_ALGORITHM");
}

TEST(ProcessSetMpi, WorksOnEmulatedNodes) {
  for (const char* ranks_per_node : {"1", "2", "3"}) {
    setenv("HORO_RANKS_PER_NODE", ranks_per_node, 1);
    Context ctx = init();
    const int size = ctx.size();
    ProcessSet even = ctx.new_process_set(ranks_where(size, [](int r) { return r % 2 == 0; }));
    ProcessSet rest = ctx.new_process_set(ranks_where(size, [](int r) { return r > 0 || r == 0; }));
    check_set(even, 1);
    check_set(rest, 2);
  }
  unsetenv("HORO_RANKS_PER_NODE");
}

// While it exists, this process cannot create files, and so no shared memory, of more than `bytes`.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(ProcessSetMpi, NodeWithoutSharedMemoryFailsAllRanks) {
  setenv("HORO_RANKS_PER_NODE", "2", 1);
  setenv("HORO_TIMEOUT", "20s", 1);
  {
    Context ctx = init();
    const std::vector<int> all = ranks_where(ctx.size(), [](int) { return true; });
    for (int node = 0; node < ctx.node_count(); ++node)
      for (const rlim_t bytes : {0, 16 * 1024, 128 * 1024}) {
        std::optional<FileLimit> limit;
        if (ctx.rank() / 2 == node) limit.emplace(bytes);
        if (ctx.size() == ctx.node_count()) continue;  // nothing is shared
        EXPECT_THROW((void)ctx.new_process_set(all), SharedMemoryError)
            << "node " << node << " with " << bytes << " bytes";
      }
    ProcessSet set = ctx.new_process_set(all);
    check_set(set, 1);
  }
  unsetenv("HORO_TIMEOUT");
  unsetenv("HORO_RANKS_PER_NODE");
}

// Several threads create MPI communicators at the same time here.
TEST(ProcessSetMpi, ThreadsCreatePlansAndSetsConcurrently) {
  Context ctx = init();
  const int size = ctx.size();
  ProcessSet all = ctx.new_process_set(ranks_where(size, [](int) { return true; }));
  ProcessSet most =
      ctx.new_process_set(ranks_where(size, [&](int r) { return r > 0 || size < 3; }));
  const auto use = [](ProcessSet& set, int salt) {
    if (!set.includes_me()) return;
    for (int round = 0; round < 5; ++round) {
      ProcessSet inner = set.new_process_set(
          ranks_where(set.size(), [&](int r) { return r <= round % set.size(); }));
      check_set(inner, salt + round);
      check_set(set, salt + round);
    }
  };
  std::jthread other([&] { use(all, 10); });
  use(most, 20);
}

TEST(ProcessSetMpi, CreatingManyKeepsProgramTraffic) {
  Context ctx = init();
  const int size = ctx.size();
  for (int round = 0; round < 50; ++round) {
    ProcessSet set = ctx.new_process_set(
        ranks_where(size, [&](int r) { return r != round % (size + 1) || size == 1; }));
    if (set.includes_me()) {
      std::vector<float> x(100, static_cast<float>(ctx.rank()));
      const Handle handle = set.allreduce_async(TensorView(x), {.op = ReduceOp::kSum});
      handle.wait();
      EXPECT_EQ(x[99], sum_over(set.ranks(), 0) / 5 - static_cast<float>(set.size()));
    }
    int sum = 0;
    MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, round * size);
    if (round % 3 == 0) set.close();
  }
}

}  // namespace
}  // namespace horo
