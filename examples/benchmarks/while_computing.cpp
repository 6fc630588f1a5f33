#include "examples/benchmarks/while_computing.h"

#include <fmt/core.h>
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"

namespace horo::bench {
namespace {

/// A computation that needs no memory bandwidth: products of two small matrices that fit into the
/// level 1 and 2 caches. Used by one thread.
class MatrixWork {
 public:
  MatrixWork();
  /// One product, some tens of microseconds.
  void run_slice();
  /// Products per second that this core reaches in about `seconds`.
  double slices_per_second(double seconds);

 private:
  static constexpr std::size_t kRows = 64;
  using Matrix = std::array<std::array<float, kRows>, kRows>;
  Matrix a_;
  Matrix b_;
  Matrix product_{};
};

MatrixWork::MatrixWork() {
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kRows; ++j) {
      a_[i][j] = static_cast<float>((i + j) % 7);
      b_[i][j] = static_cast<float>((i * j) % 5);
    }
  }
}

void MatrixWork::run_slice() {
  for (std::size_t i = 0; i < kRows; ++i) {
    auto& row = product_[i];
    row.fill(0);
    for (std::size_t k = 0; k < kRows; ++k)
      for (std::size_t j = 0; j < kRows; ++j) row[j] += a_[i][k] * b_[k][j];
  }
  // The next product depends on this one, so that the compiler cannot drop any.
  a_[0][0] = product_[kRows - 1][kRows - 1] > 0 ? 1.0f : 2.0f;
}

double MatrixWork::slices_per_second(double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::size_t slices = 0;
  double passed = 0;
  while (passed < seconds) {
    run_slice();
    ++slices;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(slices) / passed;
}

constexpr std::size_t kTensorBytes = std::size_t{4} << 20;
// After this many seconds the exchange is awaited without computing, so that wait() throws its
// error.
constexpr double kLongestExchange = 120;

// Whole numbers: sums of up to 2^10 ranks are exact, and only the division rounds.
float value(int rank, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(i % 127));
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// CPU seconds of all threads of the process except the calling one.
double cpu_seconds_of_others() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

// Results of one exchange during a computation on this rank.
struct Overlap {
  double us = 0;
  double slices_per_second = 0;
  double core_share = 0;
};

class Step {
 public:
  Step(Context& ctx, std::size_t bytes)
      : ctx_(ctx), values_(bytes / sizeof(float)), sync_(make_sync()) {}

  void fill() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = value(ctx_.rank(), i);
  }
  void check() const {
    const float factor = 1.0f / static_cast<float>(ctx_.size());
    const int sum = ctx_.size() * (ctx_.size() + 1) / 2;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i] != static_cast<float>(sum * static_cast<int>(i % 127)) * factor)
        throw Error(fmt::format("while computing: wrong result at index {} of {}: {}", i,
                                values_.size(), values_[i]));
  }
  // Microseconds on this rank.
  double exchange_alone() {
    const double start = begin();
    sync_.wait();
    return (MPI_Wtime() - start) * 1e6;
  }
  // Measures what the background exchange costs the calling thread: the thread computes until all
  // buckets are exchanged. It polls a counter and does not wait, since wait() would take part in
  // the exchange.
  Overlap exchange_while_computing(MatrixWork& work) {
    const std::uint64_t all = ctx_.counters().collectives + sync_.bucket_count();
    const double start = begin();
    const double others = cpu_seconds_of_others();
    std::size_t slices = 0;
    do {
      work.run_slice();
      ++slices;
    } while (ctx_.counters().collectives < all && MPI_Wtime() - start < kLongestExchange);
    const double seconds = MPI_Wtime() - start;
    const double taken = cpu_seconds_of_others() - others;
    sync_.wait();
    return {seconds * 1e6, static_cast<double>(slices) / seconds, taken / seconds};
  }

 private:
  GradientSync make_sync() {
    const std::size_t most = kTensorBytes / sizeof(float);
    std::vector<NamedTensor> tensors;
    for (std::size_t at = 0; at < values_.size(); at += most)
      tensors.push_back({"gradient" + std::to_string(tensors.size()),
                         TensorView(values_.data() + at, {std::min(most, values_.size() - at)})});
    tensors_ = tensors.size();
    return GradientSync(ctx_, tensors);
  }
  double begin() {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (std::size_t i = tensors_; i-- > 0;) sync_.ready(i);
    return start;
  }

  Context& ctx_;
  std::vector<float> values_;
  std::size_t tensors_ = 0;
  GradientSync sync_;
};

}  // namespace

OverlapResult measure_while_computing(Context& ctx, std::size_t bytes, int rounds) {
  Step step(ctx, bytes);
  MatrixWork work;
  std::vector<double> alone, computing, lost, shares;
  for (int round = 0; round <= rounds; ++round) {
    step.fill();
    const double alone_us = largest(step.exchange_alone(), MPI_COMM_WORLD);
    step.check();
    step.fill();
    MPI_Barrier(MPI_COMM_WORLD);
    const double undisturbed = work.slices_per_second(alone_us / 1e6);
    const Overlap overlap = step.exchange_while_computing(work);
    step.check();
    const double computing_us = largest(overlap.us, MPI_COMM_WORLD);
    const double lost_here = largest(1 - overlap.slices_per_second / undisturbed, MPI_COMM_WORLD);
    const double share = largest(overlap.core_share, MPI_COMM_WORLD);
    if (round == 0) continue;  // warms up
    alone.push_back(alone_us);
    computing.push_back(computing_us);
    lost.push_back(lost_here);
    shares.push_back(share);
  }
  OverlapResult result;
  result.alone_us = stats_of(alone);
  result.computing_us = stats_of(computing);
  result.loss = result.computing_us.median / result.alone_us.median - 1;
  result.computation_lost = stats_of(lost).median;
  result.core_share = stats_of(shares).median;
  return result;
}

nlohmann::json to_json(const OverlapResult& result) {
  return {{"exchange_alone_us", to_json(result.alone_us)},
          {"exchange_while_computing_us", to_json(result.computing_us)},
          {"exchange_loss", result.loss},
          {"computation_loss", result.computation_lost},
          {"core_share", result.core_share}};
}

}  // namespace horo::bench
