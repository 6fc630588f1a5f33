#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

namespace horo::bench {

/// Statistics of repeated measurements, in microseconds.
struct Stats {
  double min = 0;
  double median = 0;
  double max = 0;
};
Stats stats_of(std::vector<double> samples);

/// One operation to measure: all ranks call `run` together, which performs it once.
struct Contender {
  std::string name;
  std::function<void()> run;
  /// Writes the buffers of the operation, as a backward does, so that they are in the caches of
  /// this rank's core. Called before each sample and not measured. May be empty.
  std::function<void()> write = {};
};

/// Measures contenders in turn, round after round, so that a change of the speed of the machine
/// affects all of them. A sample is the time of `iterations` runs after a barrier, divided by their
/// number, on the slowest rank. The first round warms up and is not counted. Collective over
/// `communicator`. Returns the statistics in the order of the contenders, equal on every rank.
std::vector<Stats> measure_in_turn(const std::vector<Contender>& contenders, int rounds,
                                   int iterations, MPI_Comm communicator);

/// samples[contender][round] in microseconds, equal on every rank.
using Samples = std::vector<std::vector<double>>;
/// Like measure_in_turn(), but returns the samples. Each sample has as many runs as the slowest
/// contender completes in about 20 ms.
Samples sample_evenly(const std::vector<Contender>& contenders, int rounds, MPI_Comm communicator);
/// Statistics of the samples of sample_evenly().
std::vector<Stats> measure_evenly(const std::vector<Contender>& contenders, int rounds,
                                  MPI_Comm communicator);
/// The median of a[round] / b[round].
double ratio_of(const std::vector<double>& a, const std::vector<double>& b);

/// The number of runs, from 1 to `most`, that take about `target_us`; equal on every rank.
int iterations_for(const Contender& contender, double target_us, int most, MPI_Comm communicator);

/// The largest `value` of all ranks, on every rank.
double largest(double value, MPI_Comm communicator);

}  // namespace horo::bench
