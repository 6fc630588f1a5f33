// Each test breaks one rule of NCCL, and expects that the fake ends the process at that call.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace horo::fakes {
namespace {

constexpr std::size_t kCount = 100;

/// A rank with a communicator, a stream and memory of ncclMemAlloc.
struct NcclRank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void* data = nullptr;

  NcclRank(ncclUniqueId id, int rank, int size, bool is_blocking, const char* name = "test") {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = is_blocking ? 1 : 0;
    config.commName = name;
    ncclCommInitRankConfig(&comm, size, id, rank, &config);
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    ncclMemAlloc(&data, kCount * sizeof(float));
    cudaMemsetAsync(data, 0, kCount * sizeof(float), stream);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank() {
    cudaStreamSynchronize(stream);
    ncclCommDestroy(comm);
    ncclMemFree(data);
    cudaStreamDestroy(stream);
  }
  void await() const {
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
      ncclCommGetAsyncError(comm, &state);
  }
  ncclResult_t sum(std::size_t count = kCount) const {
    return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
  }
};

ncclUniqueId new_id() {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  return id;
}

void on_two_ranks(const std::function<void(NcclRank&, int)>& function) {
  const ncclUniqueId id = new_id();
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      NcclRank own(id, r, 2, true);
      function(own, r);
      cudaStreamSynchronize(own.stream);
    });
}

struct FakeNcclDeathTest : testing::Test {
  FakeNcclDeathTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(FakeNcclDeathTest, RanksMustAgree) {
  on_two_ranks([](NcclRank& own, int) { EXPECT_EQ(own.sum(), ncclSuccess); });
  EXPECT_DEATH(on_two_ranks([](NcclRank& own, int r) { own.sum(r == 0 ? 100 : 99); }),
               "the ranks disagree: rank . calls ncclAllReduce\\(count .*, rank . calls");
  EXPECT_DEATH(on_two_ranks([](NcclRank& own, int r) {
                 if (r == 0) own.sum();
                 if (r == 1)
                   ncclBroadcast(own.data, own.data, kCount, ncclFloat32, 0, own.comm, own.stream);
               }),
               "the ranks disagree: .*ncclBroadcast");
}

TEST_F(FakeNcclDeathTest, CallInProgressMustEndBeforeTheNext) {
  const NcclRank own(new_id(), 0, 1, false);
  own.await();
  EXPECT_EQ(own.sum(), ncclInProgress);
  own.await();
  EXPECT_DEATH(
      {
        const NcclRank other(new_id(), 0, 1, false);
        other.sum();
      },
      "ncclAllReduce on communicator test .*earlier call is in progress");
}

TEST_F(FakeNcclDeathTest, NameMustOutliveCommunicator) {
  EXPECT_DEATH(
      {
        char name[] = "gradients";
        const NcclRank own(new_id(), 0, 1, true, name);
        std::strcpy(name, "gone");
        own.sum();
      },
      "communicator gradients .*commName has changed or was freed");
}

TEST_F(FakeNcclDeathTest, RegisteredMemoryMustNotBeFreed) {
  EXPECT_DEATH(
      {
        const NcclRank own(new_id(), 0, 1, true);
        cudaStreamSynchronize(own.stream);
        void* handle = nullptr;
        ncclCommRegister(own.comm, own.data, kCount, &handle);
        ncclMemFree(own.data);
      },
      "ncclMemFree on a block .*still registered with a communicator");
}

TEST_F(FakeNcclDeathTest, CollectivesMustUseLiveMemory) {
  EXPECT_DEATH(
      {
        const NcclRank own(new_id(), 0, 1, true);
        own.sum(kCount + 1);
      },
      "ncclAllReduce on communicator test .*outside of a block of 400 bytes");
}

TEST_F(FakeNcclDeathTest, CollectivesNeedOrderWithOtherStreams) {
  EXPECT_DEATH(
      {
        const NcclRank own(new_id(), 0, 1, true);
        cudaStreamSynchronize(own.stream);
        cudaStream_t other = nullptr;
        cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0);
        cudaMemsetAsync(own.data, 1, 4, other);
        own.sum();
        cudaStreamSynchronize(other);
        cudaStreamSynchronize(own.stream);
      },
      "on stream .*without an order between them");
}

TEST_F(FakeNcclDeathTest, HostFunctionMustNotCallNccl) {
  EXPECT_DEATH(
      {
        cudaStream_t stream = nullptr;
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
        cudaLaunchHostFunc(
            stream, [](void*) { ncclGroupStart(); }, nullptr);
        cudaStreamSynchronize(stream);
      },
      "ncclGroupStart on the thread of a host function");
}

}  // namespace
}  // namespace horo::fakes
