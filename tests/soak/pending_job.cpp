// Submits many allreduces before it waits for any of them, in a different order on each rank, and
// checks every sum.
// usage: mpirun -n 2 pending_job [OPERATIONS [ROUNDS]]     (default: 100000 1)
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "horo/horo.h"

namespace {

float value_of(int rank, std::size_t operation) {
  return static_cast<float>(operation % 1000 + static_cast<std::size_t>(rank));
}

// Returns the numbers below `count` in an order that depends on the rank.
std::vector<std::size_t> shuffled(std::size_t count, int rank) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, std::mt19937(static_cast<unsigned>(rank)));
  return order;
}

void run_round(horo::Context& ctx, std::size_t operations) {
  std::vector<float> values(operations);
  std::vector<horo::Handle> handles;
  for (const std::size_t i : shuffled(operations, ctx.rank())) {
    values[i] = value_of(ctx.rank(), i);
    handles.push_back(
        ctx.allreduce_async(horo::TensorView(&values[i], {1}),
                            {.name = fmt::format("operation {}", i), .op = horo::ReduceOp::kSum}));
  }
  for (horo::Handle& handle : handles) handle.wait();
  for (std::size_t i = 0; i < operations; ++i) {
    float expected = 0;
    for (int rank = 0; rank < ctx.size(); ++rank) expected += value_of(rank, i);
    if (values[i] != expected)
      throw horo::Error(
          fmt::format("operation {}: the sum is {} and not {}", i, values[i], expected));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::size_t operations = argc > 1 ? std::stoul(argv[1]) : 100000;
    const int rounds = argc > 2 ? std::stoi(argv[2]) : 1;
    horo::Context ctx = horo::init();
    for (int round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      run_round(ctx, operations);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      if (ctx.rank() == 0)
        fmt::print("{} pending operations completed in {:.2f} s\n", operations, taken.count());
    }
    ctx.shutdown();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "pending_job: {}\n", error.what());
    return 1;
  }
}
