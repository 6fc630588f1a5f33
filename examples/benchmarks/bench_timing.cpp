#include "examples/benchmarks/bench_timing.h"

#include <algorithm>
#include <cmath>

namespace horo::bench {
namespace {

// Microseconds per run on the slowest rank.
// The barrier lets all ranks start together. Without it, a rank that is late would make the
// contender look slow.
double sample(const Contender& contender, int iterations, MPI_Comm communicator) {
  if (contender.write) contender.write();
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

namespace {

// All contenders run in each round, so that a disturbance of the machine affects all of them. Round
// 0 warms up and does not count.
Samples sample_in_turn(const std::vector<Contender>& contenders, int rounds, int iterations,
                       MPI_Comm communicator) {
  Samples samples(contenders.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      const double us = sample(contenders[c], iterations, communicator);
      if (round > 0) samples[c].push_back(us);
    }
  }
  return samples;
}

std::vector<Stats> stats_of_all(const Samples& samples) {
  std::vector<Stats> result;
  for (const auto& of_contender : samples) result.push_back(stats_of(of_contender));
  return result;
}

}  // namespace

std::vector<Stats> measure_in_turn(const std::vector<Contender>& contenders, int rounds,
                                   int iterations, MPI_Comm communicator) {
  return stats_of_all(sample_in_turn(contenders, rounds, iterations, communicator));
}

Samples sample_evenly(const std::vector<Contender>& contenders, int rounds, MPI_Comm communicator) {
  constexpr double kTargetUs = 20000;
  constexpr int kMost = 1000;
  int iterations = kMost;
  for (const Contender& contender : contenders)
    iterations = std::min(iterations, iterations_for(contender, kTargetUs, kMost, communicator));
  return sample_in_turn(contenders, rounds, iterations, communicator);
}

std::vector<Stats> measure_evenly(const std::vector<Contender>& contenders, int rounds,
                                  MPI_Comm communicator) {
  return stats_of_all(sample_evenly(contenders, rounds, communicator));
}

// The median of the ratios per round, not the ratio of the medians: both values of a round see the
// same state of the machine.
double ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return stats_of(std::move(ratios)).median;
}

}  // namespace horo::bench
