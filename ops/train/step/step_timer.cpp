#include "ops/train/step/step_timer.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace horo::ops {

// Only these phases get a scope in the trace. The exchange of gradients reports its own operations
// there.
std::string_view scope_name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::kDataWait:
      return "data";
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kExposedCommunication:
      return {};
    case StepPhase::kOptimizer:
      return "update";
    case StepPhase::kTransfer:
      return "data";
    case StepPhase::kLogging:     // the callbacks report their own phases
    case StepPhase::kCheckpoint:  // Context::pause()
      return {};
  }
  return {};
}

void PhaseScopes::enter(StepPhase phase) {
  leave();
  if (const std::string_view mark = scope_name_of(phase); !mark.empty())
    current_.emplace(context_.phase(mark));
}

namespace {

constexpr std::array kPhases{StepPhase::kDataWait,  StepPhase::kForward,
                             StepPhase::kBackward,  StepPhase::kExposedCommunication,
                             StepPhase::kOptimizer, StepPhase::kTransfer,
                             StepPhase::kLogging,   StepPhase::kCheckpoint};
static_assert(kPhases.size() == kPhaseCount);

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <typename Statistic>
StepTimes by_column(std::span<const StepTimes> steps, Statistic statistic) {
  // The first step is left out. It builds kernels and buffers, and takes much longer than the
  // others.
  if (steps.size() > 1) steps = steps.subspan(1);
  StepTimes result;
  if (steps.empty()) return result;
  std::vector<double> column(steps.size());
  for (const StepPhase phase : kPhases) {
    std::ranges::transform(steps, column.begin(), [=](const auto& step) { return step[phase]; });
    result[phase] = statistic(column);
  }
  std::ranges::transform(steps, column.begin(), &StepTimes::total_ms);
  result.total_ms = statistic(column);
  return result;
}

}  // namespace

std::string_view name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::kDataWait:
      return "data_wait";
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kExposedCommunication:
      return "exposed_communication";
    case StepPhase::kOptimizer:
      return "optimizer";
    case StepPhase::kTransfer:
      return "transfer";
    case StepPhase::kLogging:
      return "logging";
    case StepPhase::kCheckpoint:
      return "checkpoint";
  }
  return "unknown";
}

std::string describe(const StepTimes& times) {
  std::string line = fmt::format("step {:.3g} ms:", times.total_ms);
  const char* separator = " ";
  for (const StepPhase phase : kPhases) {
    if (phase >= StepPhase::kTransfer && times[phase] == 0) continue;
    std::string name(name_of(phase));
    std::ranges::replace(name, '_', ' ');
    const double share = times.total_ms > 0 ? 100 * times[phase] / times.total_ms : 0;
    line += fmt::format("{}{} {:.0f} %", separator, name, share);
    separator = ", ";
  }
  return line;
}

void StepTimer::begin_step(StepPhase phase) {
  current_ = {};
  is_resumed_ = false;
  phase_ = phase;
  phase_start_ = now_();
}

// Each phase ends where the next begins, so that the phases of a step add up to its total.
void StepTimer::enter(StepPhase phase) {
  const auto time = now_();
  const std::chrono::duration<double, std::milli> spent = time - phase_start_;
  current_[phase_] += spent.count();
  current_.total_ms += spent.count();
  phase_ = phase;
  phase_start_ = time;
}

void StepTimer::end_step() {
  enter(phase_);
  if (std::exchange(is_resumed_, false)) {
    total_ms_ += current_.total_ms - steps_.back().total_ms;
    steps_.back() = current_;
  } else {
    add(current_);
  }
}

void StepTimer::add(const StepTimes& times) {
  steps_.push_back(times);
  total_ms_ += times.total_ms;
}

void StepTimer::resume_step(StepPhase phase) {
  current_ = steps_.back();
  is_resumed_ = true;
  phase_ = phase;
  phase_start_ = now_();
}

StepTimes StepTimer::medians() const { return by_column(steps_, median); }
StepTimes StepTimer::means() const { return by_column(steps_, mean); }

}  // namespace horo::ops
