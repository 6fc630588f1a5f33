#include "tests/large/large_buffers.h"

#include <functional>

#include "collectives/shared_memory/shared_memory_collectives.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::large {
namespace {

class LargeBuffersInSharedMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string text = skip_reason(); !text.empty()) GTEST_SKIP() << text;
  }
  static void run(const std::function<void(Collectives&, int)>& function) {
    contract::run_thread_ranks(2, {}, [&](Transport& transport, int rank) {
      const SharedMemoryCollectives::Options options;
      SharedMemoryCollectives collectives(
          transport.make_node_region(SharedMemoryCollectives::bytes_needed(2, options)), rank,
          {"rank 0", "rank 1"}, options, transport.wait_policy());
      function(collectives, rank);
    });
  }
};

TEST_F(LargeBuffersInSharedMemory, Broadcast) { run(check_broadcast); }
TEST_F(LargeBuffersInSharedMemory, Allreduce) { run(check_allreduce); }
TEST_F(LargeBuffersInSharedMemory, ReduceScatter) { run(check_reduce_scatter); }
TEST_F(LargeBuffersInSharedMemory, Allgather) { run(check_allgather); }
TEST_F(LargeBuffersInSharedMemory, Alltoall) { run(check_alltoall); }

}  // namespace
}  // namespace horo::collectives::large
