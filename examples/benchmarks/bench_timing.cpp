#include "examples/benchmarks/bench_timing.h"

#include <algorithm>
#include <cmath>

namespace horo::bench {
namespace {

// Microseconds per run on the slowest rank.
double sample(const Contender& contender, int iterations, MPI_Comm communicator) {
  MPI_Barrier(communicator);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) contender.run();
  return largest((MPI_Wtime() - start) * 1e6 / iterations, communicator);
}

}  // namespace

Stats stats_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  return {samples.front(), median, samples.back()};
}

double largest(double value, MPI_Comm communicator) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, communicator);
  return result;
}

int iterations_for(const Contender& contender, double target_us, int most, MPI_Comm communicator) {
  contender.run();
  const double once = sample(contender, 2, communicator);
  return std::clamp(static_cast<int>(std::lround(target_us / std::max(once, 0.01))), 1, most);
}

std::vector<Stats> measure_in_turn(const std::vector<Contender>& contenders, int rounds,
                                   int iterations, MPI_Comm communicator) {
  std::vector<std::vector<double>> samples(contenders.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      const double us = sample(contenders[c], iterations, communicator);
      if (round > 0) samples[c].push_back(us);
    }
  }
  std::vector<Stats> result;
  for (auto& of_contender : samples) result.push_back(stats_of(std::move(of_contender)));
  return result;
}

}  // namespace horo::bench
