#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

namespace horo::bench {

/// What repeated measurements say, in microseconds.
struct Stats {
  double min = 0;
  double median = 0;
  double max = 0;
};
Stats stats_of(std::vector<double> samples);

/// One thing to measure: `run` performs the operation once, on every rank together.
struct Contender {
  std::string name;
  std::function<void()> run;
};

/// Measures contenders in turn, round after round, so that a change of the machine's speed meets
/// all of them. A sample is the time of `iterations` runs after a barrier, divided by their number,
/// on the slowest rank. The first round warms up and is not counted. Collective over
/// `communicator`; returns the statistics in the contenders' order, the same on every rank.
std::vector<Stats> measure_in_turn(const std::vector<Contender>& contenders, int rounds,
                                   int iterations, MPI_Comm communicator);

/// samples[contender][round], in microseconds, the same on every rank.
using Samples = std::vector<std::vector<double>>;
/// The samples behind measure_in_turn(), with as many runs in each as fit into about 20 ms of the
/// slowest contender.
Samples sample_evenly(const std::vector<Contender>& contenders, int rounds, MPI_Comm communicator);
/// Their statistics.
std::vector<Stats> measure_evenly(const std::vector<Contender>& contenders, int rounds,
                                  MPI_Comm communicator);
/// The median over rounds of how many times b's sample a's is.
double ratio_of(const std::vector<double>& a, const std::vector<double>& b);

/// How many runs of `operation` fill about `target_us`, between 1 and `most`; the same on every
/// rank.
int iterations_for(const Contender& contender, double target_us, int most, MPI_Comm communicator);

/// The largest of the ranks' values, on every rank.
double largest(double value, MPI_Comm communicator);

}  // namespace horo::bench
