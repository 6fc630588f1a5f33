#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "horo/device/block_reduction.h"
#include "horo/device/host/host_device.h"
#include "horo/device/launch.h"

namespace horo::device {
namespace {

// Each thread passes a value to its right neighbour, twice.
struct Rotate {
  static constexpr unsigned kThreads = 8;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    int first[kThreads], second[kThreads];
  };
  struct Own {
    int taken = 0;
  };
  int* values;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const ThreadIndex& place, Shared& shared, Own& own) const {
    const unsigned left = (place.thread + kThreads - 1) % kThreads;
    int* value = values + place.block * kThreads + place.thread;
    if constexpr (kPhase == 0) {
      shared.first[place.thread] = *value;
    } else if constexpr (kPhase == 1) {
      own.taken = shared.first[left];
      shared.second[place.thread] = own.taken;
    } else {
      *value = 100 * shared.second[left] + own.taken;
    }
  }
};

TEST(BlockKernel, ThreadsSeeWritesOfPreviousPhase) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  std::vector<int> values(3 * 8);
  for (int i = 0; i < 24; ++i) values[static_cast<std::size_t>(i)] = i;
  launch(*stream, {3, 8}, Rotate{values.data()});
  stream->synchronize();
  for (int i = 0; i < 24; ++i) {
    const int block = i / 8 * 8;
    EXPECT_EQ(values[static_cast<std::size_t>(i)],
              100 * (block + (i + 6) % 8) + block + (i + 7) % 8);
  }
}

// Reads its left neighbour's value in the phase in which that is written.
struct OrderDependent {
  static constexpr unsigned kPhases = 2;
  struct Shared {
    float value[8];
  };
  struct Own {};
  float* values;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) shared.value[place.thread] = 1;
    if constexpr (kPhase == 1) {
      shared.value[place.thread] = 2;
      values[place.block * 8 + place.thread] = shared.value[(place.thread + 7) % 8];
    }
  }
};

TEST(BlockKernel, ExposesOrderDependence) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  std::vector<float> values(2 * 8);
  launch(*stream, {2, 8}, OrderDependent{values.data()});
  stream->synchronize();
  EXPECT_NE(values[3], values[8 + 3]);
}

template <typename T, unsigned kThreadCount, typename Operation>
struct Reduce {
  static constexpr unsigned kPhases = 3;
  using Reduction = BlockReduction<T, kThreadCount, Operation>;
  struct Shared {
    Reduction reduction;
  };
  struct Own {};
  const T* from;
  T* to;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const ThreadIndex& place, Shared& shared, Own&) const {
    const unsigned at = place.block * kThreadCount + place.thread;
    if constexpr (kPhase == 0) shared.reduction.give(place.thread, from[at]);
    if constexpr (kPhase == 1) shared.reduction.combine(place.thread);
    if constexpr (kPhase == 2) to[at] = shared.reduction.result();
  }
};

template <unsigned kThreadCount, typename Operation, typename T>
std::vector<T> reduce(const std::vector<T>& from) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  std::vector<T> to(from.size());
  const auto blocks = static_cast<unsigned>(from.size() / kThreadCount);
  launch(*stream, {blocks, kThreadCount},
         Reduce<T, kThreadCount, Operation>{from.data(), to.data()});
  stream->synchronize();
  return to;
}

template <unsigned kThreadCount>
void check_all_values_count() {
  std::vector<std::int64_t> from;
  for (unsigned i = 0; i < 2 * kThreadCount; ++i)
    from.push_back(std::int64_t{7} * i * i - 50 * std::int64_t{i});
  const auto sums = reduce<kThreadCount, Sum>(from);
  const auto largest = reduce<kThreadCount, Largest>(from);
  for (unsigned block = 0; block < 2; ++block) {
    std::int64_t sum = 0, most = std::numeric_limits<std::int64_t>::min();
    for (unsigned i = 0; i < kThreadCount; ++i) {
      sum += from[block * kThreadCount + i];
      most = std::max(most, from[block * kThreadCount + i]);
    }
    for (unsigned i = 0; i < kThreadCount; ++i) {
      EXPECT_EQ(sums[block * kThreadCount + i], sum) << kThreadCount << " threads";
      EXPECT_EQ(largest[block * kThreadCount + i], most) << kThreadCount << " threads";
    }
  }
}

TEST(BlockReduction, EveryThreadGetsResultOfBlock) {
  check_all_values_count<1>();
  check_all_values_count<2>();
  check_all_values_count<32>();
  check_all_values_count<64>();
  check_all_values_count<256>();
  check_all_values_count<1024>();
}

TEST(BlockReduction, AddsFloatsAsTree) {
  // A sequential sum would lose the ones after 2^24.
  std::vector<float> from(256, 1.0f);
  from[0] = 0x1p24f;
  EXPECT_GE((reduce<256, Sum>(from)[17]), 0x1p24f + 240);
}

TEST(BlockReduction, MaximumPropagatesNan) {
  for (const std::size_t place : {0u, 1u, 31u}) {
    std::vector<float> from(32, 3.0f);
    from[place] = std::nanf("");
    EXPECT_TRUE(std::isnan(reduce<32, Largest>(from)[5])) << place;
  }
}

}  // namespace
}  // namespace horo::device
