#include "examples/benchmarks/memory_copy.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "examples/benchmarks/bench_timing.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace horo::bench {
namespace {

double gbps(std::size_t bytes, const std::function<void()>& copy, MPI_Comm communicator) {
  const std::vector<Stats> stats = measure_in_turn({{"copy", copy}}, 7, 1, communicator);
  return static_cast<double>(bytes) / stats[0].median / 1e3;
}

struct alignas(64) Line {
  std::byte bytes[64];
};

// Measures the bandwidth between two cores: each rank repeatedly writes a block and then reads the
// block of the next rank. The barriers are outside the measured time.
double measure_core_to_core(MPI_Comm communicator) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_rank = 0;
  int node_size = 1;
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_size(node, &node_size);
  double result = 0;
  if (node_size > 1) {
    // Larger than a core's private cache, smaller than the shared one.
    constexpr std::size_t kBlock = 1 << 20;
    std::byte* own = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_allocate_shared(kBlock, 1, MPI_INFO_NULL, node, &own, &window);
    std::byte* next = nullptr;
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window, (node_rank + 1) % node_size, &bytes, &unit, &next);
    std::vector<std::byte> values(kBlock);
    std::vector<double> samples;
    for (int round = 0; round < 12; ++round) {
      MPI_Barrier(node);
      const double start = MPI_Wtime();
      std::memcpy(own, values.data(), kBlock);
      const double written = MPI_Wtime();
      MPI_Barrier(node);
      const double read = MPI_Wtime();
      std::memcpy(values.data(), next, kBlock);
      samples.push_back(MPI_Wtime() - read + written - start);
    }
    result = kBlock / stats_of({samples.begin() + 2, samples.end()}).median / 1e9;
    MPI_Win_free(&window);
  }
  MPI_Comm_free(&node);
  return -largest(-result, communicator);  // the slowest pair
}

}  // namespace

void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t whole = bytes / 64 * 64;
  for (std::size_t i = 0; i < whole; i += 64)
    for (std::size_t k = 0; k < 64; k += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + k),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + k)));
  std::memcpy(to + whole, from + whole, bytes - whole);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

MemoryLimits measure_memory_limits(std::size_t bytes, MPI_Comm communicator) {
  std::vector<Line> from(bytes / sizeof(Line));
  std::vector<Line> to(bytes / sizeof(Line));
  auto* source = reinterpret_cast<std::byte*>(from.data());
  auto* target = reinterpret_cast<std::byte*>(to.data());
  // Touches all pages, so that page faults are not measured.
  std::memset(source, 1, bytes);
  std::memset(target, 2, bytes);
  MemoryLimits limits;
  limits.memcpy_gbps = gbps(
      bytes, [&] { std::memcpy(target, source, bytes); }, communicator);
#if defined(__SSE2__)
  limits.streaming_copy_gbps = gbps(
      bytes, [&] { streaming_copy(target, source, bytes); }, communicator);
#endif
  limits.core_to_core_gbps = measure_core_to_core(communicator);
  return limits;
}

}  // namespace horo::bench
