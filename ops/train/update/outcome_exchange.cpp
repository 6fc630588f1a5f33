#include "ops/train/update/outcome_exchange.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace horo::ops {
namespace {

constexpr std::size_t kValues = 6;  // of a step: see OutcomeExchange::add()

std::string why_skipped(float loss, float share, int ranks) {
  if (share == 0) return {};
  if (!std::isfinite(loss)) return fmt::format("the loss is {}", loss);
  return fmt::format("the gradients of {:.0f} of {} ranks are not finite",
                     share * static_cast<float>(ranks), ranks);
}

StepOutcome outcome_of(std::span<const float> values, int ranks) {
  return {.loss = values[0],
          .requests = {.stop = values[1], .save = values[2], .report = values[3]},
          .was_clipped = values[4] > 0,
          .why_skipped = why_skipped(values[0], values[5], ranks)};
}

}  // namespace

void OutcomeExchange::add(const OwnOutcome& outcome) {
  const StepRequests& requests = outcome.scalars.requests;
  const std::array<float, kValues> values{outcome.scalars.loss,
                                          requests.stop,
                                          requests.save,
                                          requests.report,
                                          outcome.was_clipped ? 1.0f : 0.0f,
                                          outcome.was_skipped ? 1.0f : 0.0f};
  added_.insert(added_.end(), values.begin(), values.end());
}

// Operations in flight have different names. A group is not fused with other operations, which
// could change the order of its sums from run to run.
std::uint64_t OutcomeExchange::launch() {
  ++launches_;
  Exchange& exchange = in_flight_.emplace_back();
  exchange.values = std::exchange(added_, {});
  if (exchange.values.empty()) return launches_;
  const std::vector<NamedTensor> tensors = {
      {fmt::format("train.outcomes.{}", launches_ % 64), TensorView(exchange.values)}};
  exchange.operation = context_.allreduce_group_async(tensors);
  return launches_;
}

std::vector<StepOutcome> OutcomeExchange::collect(std::uint64_t launches) {
  std::vector<StepOutcome> outcomes;
  while (!in_flight_.empty() && launches_ - in_flight_.size() < launches) {
    const Exchange exchange = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (exchange.values.empty()) continue;
    exchange.operation.wait();
    for (std::size_t i = 0; i < exchange.values.size(); i += kValues)
      outcomes.push_back(
          outcome_of(std::span(exchange.values).subspan(i, kValues), context_.size()));
  }
  return outcomes;
}

}  // namespace horo::ops
