#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "horo/base/hash.h"
#include "horo/horo.h"
#include "horo/testing.h"

namespace horo {
namespace {

using testing::run_ranks;
using testing::RunOptions;

constexpr std::size_t kCounts[] = {3, 1000, 1, 0, 517, 40009, 64, 2};

struct Gradient {
  DataType type;
  std::size_t count;
  std::vector<std::byte> own;  // memory, where there is no arena
  std::byte* data = nullptr;
  std::size_t bytes() const { return count * size_of(type); }
};

// Random values of all float types. Gradients of one type are adjacent, so that buckets hold
// several tensors.
class Job {
 public:
  Job(int rank, std::byte* arena) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16})
      for (const std::size_t count : kCounts) gradients_.push_back({type, count, {}, nullptr});
    for (Gradient& gradient : gradients_) {
      gradient.own.resize(arena == nullptr ? gradient.bytes() : 0);
      gradient.data = arena == nullptr ? gradient.own.data() : arena;
      if (arena != nullptr) arena += (gradient.bytes() + 7) / 8 * 8;
    }
    fill(rank);
  }

  void fill(int rank) {
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (Gradient& gradient : gradients_)
      visit_type(gradient.type, [&]<typename T>(T) {
        for (std::size_t i = 0; i < gradient.count; ++i) {
          const T value = static_cast<T>(uniform(random));
          std::memcpy(gradient.data + i * sizeof value, &value, sizeof value);
        }
      });
  }

  std::vector<NamedTensor> named() {
    std::vector<NamedTensor> tensors;
    for (Gradient& gradient : gradients_)
      tensors.push_back({"g" + std::to_string(tensors.size()),
                         TensorView(gradient.data, gradient.type, Shape{gradient.count})});
    return tensors;
  }
  std::uint64_t hash() const {
    Hash hash;
    for (const Gradient& gradient : gradients_) hash.add_bytes(gradient.data, gradient.bytes());
    return hash.value();
  }

 private:
  std::vector<Gradient> gradients_;
};

// Sleeps for a random time. Each seed gives another interleaving.
class Delays {
 public:
  Delays(unsigned seed, int rank) : random_(seed * 100 + static_cast<unsigned>(rank)) {}
  void operator()() { std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200)); }

 private:
  std::mt19937 random_;
};

// Runs exchanges of a plan, then named operations one by one. Returns the result of all ranks.
std::uint64_t run_job(int ranks, std::vector<std::string> environment, unsigned seed) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  RunOptions options;
  options.environment = std::move(environment);
  options.max_delay = std::chrono::microseconds(seed * 40);
  options.seed = seed;
  run_ranks(
      ranks,
      [&](Context& ctx) {
        Delays delay(seed, ctx.rank());
        Job job(ctx.rank(), nullptr);
        const std::vector<NamedTensor> tensors = job.named();
        GradientSync sync(ctx, tensors, {.op = ReduceOp::kSum, .bucket_bytes = 60000});
        for (int step = 0; step < 3; ++step) {
          for (std::size_t i = tensors.size(); i-- > 0;) {
            if (i % 5 == 0) delay();
            sync.ready(i);
          }
          sync.wait();
        }
        for (const NamedTensor& tensor : tensors) {
          delay();
          ctx.allreduce(tensor.tensor, {.name = tensor.name});
        }
        hashes[static_cast<std::size_t>(ctx.rank())] = job.hash();
      },
      options);
  for (const std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
  return hashes[0];
}

TEST(Determinism, BitsDoNotDependOnTimingInAnyAlgorithm) {
  const std::vector<std::string> kWays[] = {
      {"HORO_ALGORITHM=shared_memory", "HORO_SEGMENT_BYTES=4096"},
      {"HORO_ALGORITHM=ring", "HORO_RING_SEGMENT_BYTES=4096"},
      {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2"},
      {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=3"},
      {"HORO_ALGORITHM=parameter_server"},
      {"HORO_ALGORITHM=parameter_server", "HORO_SERVERS=2"}};
  for (const auto& environment : kWays)
    for (const int ranks : {3, 4}) {
      const std::uint64_t first = run_job(ranks, environment, 1);
      for (const unsigned seed : {2u, 3u})
        EXPECT_EQ(run_job(ranks, environment, seed), first)
            << environment[0] << ", " << ranks << " ranks, seed " << seed;
    }
}

std::uint64_t run_packed(int ranks, std::size_t bucket_bytes, bool in_arena) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Context& ctx) {
              std::optional<Arena> arena;
              if (in_arena) arena = ctx.allocate(1 << 20);
              Job job(ctx.rank(), in_arena ? arena->bytes().data() : nullptr);
              GradientSync sync(ctx, job.named(), {.bucket_bytes = bucket_bytes});
              EXPECT_EQ(sync.is_in_place(0), in_arena);
              sync.exchange();
              hashes[static_cast<std::size_t>(ctx.rank())] = job.hash();
            },
            {.environment = {"HORO_SEGMENT_BYTES=4096", "HORO_DIRECT_BYTES=1024"}});
  for (const std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
  return hashes[0];
}

TEST(Determinism, SharedMemoryBitsDoNotDependOnBucketsOrArenas) {
  for (const int ranks : {2, 3, 4}) {
    const std::uint64_t first = run_packed(ranks, 1, false);
    for (const std::size_t bucket_bytes : {1, 300, 4096, 60000, 1 << 24})
      for (const bool in_arena : {false, true})
        EXPECT_EQ(run_packed(ranks, bucket_bytes, in_arena), first)
            << ranks << " ranks, buckets of " << bucket_bytes << (in_arena ? ", in an arena" : "");
  }
}

// The state that a program would save: a model of 3 x 1003 weights, trained with momentum.
struct Training {
  std::vector<std::vector<float>> weights{3, std::vector<float>(1003, 0.5f)};
  std::vector<std::vector<float>> momentum{3, std::vector<float>(1003, 0.0f)};
  int step = 0;
  friend bool operator==(const Training&, const Training&) = default;
};

// Continues the training from `saved` up to `steps`. Every rank sleeps at random, at most
// `longest`.
Training train(const Training& saved, int steps, unsigned seed, std::chrono::microseconds longest) {
  std::vector<Training> of_rank(4, saved);
  run_ranks(4,
            [&](Context& ctx) {
              Training& own = of_rank[static_cast<std::size_t>(ctx.rank())];
              std::mt19937 pauses(seed * 100 + static_cast<unsigned>(ctx.rank()));
              std::vector<std::vector<float>> gradients(3, std::vector<float>(1003));
              std::vector<NamedTensor> named;
              for (std::vector<float>& gradient : gradients)
                named.push_back({"g" + std::to_string(named.size()), TensorView(gradient)});
              GradientSync sync(ctx, named, {.bucket_bytes = 5000});
              for (; own.step < steps; ++own.step) {
                for (std::size_t t = 3; t-- > 0;) {
                  if (longest.count() > 0)
                    std::this_thread::sleep_for(std::chrono::microseconds(
                        pauses() % static_cast<unsigned>(longest.count())));
                  std::mt19937 random(static_cast<unsigned>(own.step * 4 + ctx.rank()));
                  std::uniform_real_distribution<float> noise(-0.1f, 0.1f);
                  for (std::size_t i = 0; i < 1003; ++i)
                    gradients[t][i] = 0.3f * own.weights[t][i] + noise(random);
                  sync.ready(t);
                }
                sync.wait();
                for (std::size_t t = 0; t < 3; ++t)
                  for (std::size_t i = 0; i < 1003; ++i) {
                    own.momentum[t][i] = 0.9f * own.momentum[t][i] + gradients[t][i];
                    own.weights[t][i] -= 0.05f * own.momentum[t][i];
                  }
              }
            },
            {.environment = {"HORO_RANKS_PER_NODE=2"}});
  for (const Training& other : of_rank) EXPECT_EQ(other, of_rank[0]);
  return of_rank[0];
}

TEST(Determinism, TrainingBitsDoNotDependOnLateRanks) {
  const Training first = train({}, 20, 1, std::chrono::microseconds(0));
  EXPECT_EQ(train({}, 20, 1, std::chrono::microseconds(0)), first);
  EXPECT_EQ(train({}, 20, 2, std::chrono::milliseconds(5)), first);
}

TEST(Determinism, ResumedTrainingHasSameBits) {
  const std::chrono::microseconds none(0);
  const Training saved = train({}, 7, 1, none);
  EXPECT_EQ(saved.step, 7);
  EXPECT_EQ(train(saved, 20, 1, none), train({}, 20, 1, none));
}

}  // namespace
}  // namespace horo
