// Measures allreduces of an MPI library, or of oneCCL, alone and in the same way as the benchmarks
// measure horo. scripts/compare_peers.py compiles this file once with the compiler wrapper of each
// MPI library, since one build can hold only one of them:
//
//   mpicxx -std=c++20 -O3 -I. examples/benchmarks/peers/allreduce_peer.cpp
//     examples/benchmarks/peers/peer_library_mpi.cpp examples/benchmarks/bench_timing.cpp -o
//     allreduce_peer
//   mpirun -np 2 allreduce_peer ROUNDS sizes BYTES...
//   mpirun -np 2 allreduce_peer ROUNDS tensors FILE
//
// FILE holds the element counts of a step's gradients in forward order, one per line. Rank 0 prints
// one JSON object per line: {"way": ..., "bytes": ..., "us": ...}, a median over ROUNDS.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/peers/peer_library.h"

namespace {
using horo::bench::Contender;
using horo::bench::Stats;
using horo::bench::peer_library::sum;

struct Job {
  int rank = 0;
  int ranks = 1;
};

// Differs by rank, tensor and index; its sum over the ranks is exact in float32.
float value(int rank, std::size_t tensor, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(1 + (i + tensor) % 127));
}

void fill(float* values, std::size_t count, std::size_t tensor, int rank) {
  for (std::size_t i = 0; i < count; ++i) values[i] = value(rank, tensor, i);
}

void check(const float* values, std::size_t count, std::size_t tensor, int ranks,
           const std::string& way) {
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != factor * value(0, tensor, i))
      throw std::runtime_error(way + ": tensor " + std::to_string(tensor) + " is wrong at index " +
                               std::to_string(i) + ": " + std::to_string(values[i]));
}

void print(const Job& job, const std::string& way, std::size_t bytes, const Stats& stats) {
  if (job.rank == 0)
    std::printf("{\"way\": \"%s\", \"bytes\": %zu, \"us\": %.4f}\n", way.c_str(), bytes,
                stats.median);
}

void measure_size(const Job& job, std::size_t bytes, int rounds) {
  std::vector<float> x(bytes / sizeof(float));
  const Contender contender = {"allreduce", [&] { sum(x.data(), x.size()); },
                               [&] { std::fill(x.begin(), x.end(), 0.0f); }};
  fill(x.data(), x.size(), 0, job.rank);
  contender.run();
  check(x.data(), x.size(), 0, job.ranks, contender.name);
  x.assign(x.size(), 0.0f);  // stays zero however often it is summed
  const int iterations = horo::bench::iterations_for(contender, 20000, 1000, MPI_COMM_WORLD);
  print(job, contender.name, bytes,
        horo::bench::measure_in_turn({contender}, rounds, iterations, MPI_COMM_WORLD)[0]);
}

using Tensors = std::vector<std::vector<float>>;

void exchange_each(Tensors& tensors) {
  for (std::size_t t = tensors.size(); t-- > 0;) sum(tensors[t].data(), tensors[t].size());
}

// Gradients smaller than the buffer are copied into it, in backward order, until it is full; then
// it is summed and copied back. Larger ones are summed in place, in pieces of its size.
void exchange_packed(Tensors& tensors, std::vector<float>& buffer) {
  std::vector<std::size_t> packed;
  std::size_t used = 0;
  const auto flush = [&] {
    if (used > 0) sum(buffer.data(), used);
    const float* from = buffer.data();
    for (std::size_t t : packed) {
      std::memcpy(tensors[t].data(), from, tensors[t].size() * sizeof(float));
      from += tensors[t].size();
    }
    packed.clear();
    used = 0;
  };
  for (std::size_t t = tensors.size(); t-- > 0;) {
    std::vector<float>& tensor = tensors[t];
    if (tensor.size() >= buffer.size()) {
      for (std::size_t at = 0; at < tensor.size(); at += buffer.size())
        sum(tensor.data() + at, std::min(buffer.size(), tensor.size() - at));
      continue;
    }
    if (used + tensor.size() > buffer.size()) flush();
    std::memcpy(buffer.data() + used, tensor.data(), tensor.size() * sizeof(float));
    used += tensor.size();
    packed.push_back(t);
  }
  flush();
}

std::vector<std::size_t> read_counts(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; file >> count;) counts.push_back(count);
  if (counts.empty()) throw std::runtime_error("there are no element counts in '" + path + "'");
  return counts;
}

void measure_tensors(const Job& job, const std::vector<std::size_t>& counts, int rounds) {
  Tensors tensors;
  for (std::size_t count : counts) tensors.emplace_back(count);
  std::vector<float> flat(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<float> buffer_2mib((2 << 20) / sizeof(float));
  std::vector<float> buffer_4mib((4 << 20) / sizeof(float));
  const auto write = [&] {
    for (std::vector<float>& tensor : tensors) std::fill(tensor.begin(), tensor.end(), 0.0f);
  };
  const std::vector<Contender> contenders = {
      {"one call per tensor", [&] { exchange_each(tensors); }, write},
      {"packed in 2 MiB", [&] { exchange_packed(tensors, buffer_2mib); }, write},
      {"packed in 4 MiB", [&] { exchange_packed(tensors, buffer_4mib); }, write},
      {"one flat buffer", [&] { sum(flat.data(), flat.size()); },
       [&] { std::fill(flat.begin(), flat.end(), 0.0f); }}};

  for (const Contender& contender : contenders) {
    for (std::size_t t = 0; t < tensors.size(); ++t)
      fill(tensors[t].data(), tensors[t].size(), t, job.rank);
    fill(flat.data(), flat.size(), 0, job.rank);
    contender.run();
    if (&contender == &contenders.back()) {
      check(flat.data(), flat.size(), 0, job.ranks, contender.name);
    } else {
      for (std::size_t t = 0; t < tensors.size(); ++t)
        check(tensors[t].data(), tensors[t].size(), t, job.ranks, contender.name);
    }
  }
  for (auto& tensor : tensors) tensor.assign(tensor.size(), 0.0f);
  flat.assign(flat.size(), 0.0f);
  const std::vector<Stats> stats =
      horo::bench::measure_in_turn(contenders, rounds, 1, MPI_COMM_WORLD);
  for (std::size_t c = 0; c < contenders.size(); ++c)
    print(job, contenders[c].name, flat.size() * sizeof(float), stats[c]);
}

void run(const Job& job, const std::vector<std::string>& words) {
  const int rounds = words.size() > 2 ? std::atoi(words[0].c_str()) : 0;
  if (rounds > 0 && words[1] == "tensors" && words.size() == 3) {
    measure_tensors(job, read_counts(words[2]), rounds);
  } else if (rounds > 0 && words[1] == "sizes") {
    for (std::size_t w = 2; w < words.size(); ++w) measure_size(job, std::stoull(words[w]), rounds);
  } else {
    throw std::runtime_error("usage: ROUNDS sizes BYTES... or ROUNDS tensors FILE");
  }
}

}  // namespace

int main(int argc, char** argv) {
  horo::bench::peer_library::start(&argc, &argv);
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  try {
    run(job, {argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce_peer: rank %d: %s\n", job.rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  horo::bench::peer_library::stop();
}
