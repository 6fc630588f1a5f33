#include "ops/train/bottleneck/step_replay.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace horo::ops {
namespace {

double before_exchange(const StepTimes& step) {
  return step[StepPhase::kDataWait] + step[StepPhase::kTransfer] + step[StepPhase::kForward] +
         step[StepPhase::kBackward];
}

double after_exchange(const StepTimes& step) {
  return step[StepPhase::kOptimizer] + step[StepPhase::kLogging] + step[StepPhase::kCheckpoint];
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Whether the ranks wait for each other in step number `step`.
bool is_exchanged(const LocalSteps& local, std::uint64_t step) {
  if (local.count == 0) return true;
  if (local.overlap > 0) return false;
  for (std::size_t fragment = 0; fragment < local.fragments; ++fragment)
    if (is_exchanged_after(local, fragment, step)) return true;
  return false;
}

}  // namespace

StepReplay::StepReplay(const JobCosts& job) {
  for (const RankCosts& rank : job.ranks) ranks_.push_back(rank.steps);
  const std::size_t steps = ranks_.empty() ? 0 : ranks_[0].size();
  for (std::size_t step = 0; step < steps; ++step) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& rank : ranks_)
      least = std::min(least, rank[step][StepPhase::kExposedCommunication]);
    communication_.push_back(least);
    is_exchanged_.push_back(is_exchanged(job.local_steps, job.last_step + step + 1 - steps));
  }
}

double StepReplay::step_ms() const {
  if (step_count() == 0) return 0;
  double sum = 0;
  std::vector<double> own(rank_count(), 0.0);  // since the previous exchange
  for (std::size_t step = 0; step < step_count(); ++step) {
    for (std::size_t rank = 0; rank < rank_count(); ++rank) {
      own[rank] += before_exchange(ranks_[rank][step]);
      if (step > 0) own[rank] += after_exchange(ranks_[rank][step - 1]);
      if (!is_exchanged_[step]) own[rank] += ranks_[rank][step][StepPhase::kExposedCommunication];
    }
    if (!is_exchanged_[step]) continue;
    sum += *std::ranges::max_element(own) + communication_[step];
    std::ranges::fill(own, 0.0);
  }
  for (std::size_t rank = 0; rank < rank_count(); ++rank)
    own[rank] += after_exchange(ranks_[rank].back());
  return (sum + *std::ranges::max_element(own)) / static_cast<double>(step_count());
}

StepTimes StepReplay::mean(std::size_t rank) const {
  StepTimes result;
  if (step_count() == 0) return result;
  for (const StepTimes& step : ranks_[rank]) {
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
      result.phase_ms[phase] += step.phase_ms[phase];
    result.total_ms += step.total_ms;
  }
  const auto count = static_cast<double>(step_count());
  for (double& phase : result.phase_ms) phase /= count;
  result.total_ms /= count;
  result[StepPhase::kExposedCommunication] = communication_ms();
  return result;
}

double StepReplay::straggler_wait(std::size_t rank) const {
  double exposed = 0;
  for (const StepTimes& step : ranks_[rank]) exposed += step[StepPhase::kExposedCommunication];
  const double count = static_cast<double>(std::max<std::size_t>(1, step_count()));
  return std::max(0.0, exposed / count - communication_ms());
}

double StepReplay::communication_ms() const { return mean_of(communication_); }

double StepReplay::share_of_steps(std::size_t rank, StepPhase phase, double least_ms) const {
  const auto count = std::ranges::count_if(
      ranks_[rank], [&](const StepTimes& step) { return step[phase] > least_ms; });
  return static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(1, step_count()));
}

void StepReplay::scale(std::size_t rank, StepPhase phase, double factor) {
  for (StepTimes& step : ranks_[rank]) step[phase] *= factor;
}

void StepReplay::scale_communication(double factor) {
  for (double& step : communication_) step *= factor;
}

void StepReplay::set_compute(StepTimes& step, double milliseconds) {
  step[StepPhase::kForward] = milliseconds;
  step[StepPhase::kBackward] = 0;
}

void StepReplay::compute_as_others(std::size_t rank) {
  std::vector<double> others(rank_count() - 1);
  for (std::size_t step = 0; step < step_count() && !others.empty(); ++step) {
    std::size_t count = 0;
    for (std::size_t other = 0; other < rank_count(); ++other)
      if (other != rank) others[count++] = compute_of(ranks_[other][step]);
    const auto middle = others.begin() + std::ssize(others) / 2;
    std::ranges::nth_element(others, middle);
    set_compute(ranks_[rank][step], std::min(*middle, compute_of(ranks_[rank][step])));
  }
}

void StepReplay::balance_compute() {
  for (std::size_t step = 0; step < step_count(); ++step) {
    double sum = 0;
    for (const auto& rank : ranks_) sum += compute_of(rank[step]);
    for (auto& rank : ranks_) set_compute(rank[step], sum / static_cast<double>(rank_count()));
  }
}

double StepReplay::longest_compute_ms() const {
  if (step_count() == 0) return 0;
  double sum = 0;
  std::vector<double> own(rank_count(), 0.0);
  for (std::size_t step = 0; step < step_count(); ++step) {
    for (std::size_t rank = 0; rank < rank_count(); ++rank)
      own[rank] += compute_of(ranks_[rank][step]);
    if (!is_exchanged_[step] && step + 1 < step_count()) continue;
    sum += *std::ranges::max_element(own);
    std::ranges::fill(own, 0.0);
  }
  return sum / static_cast<double>(step_count());
}

}  // namespace horo::ops
