#include "ops/train/update/local_update.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <span>
#include <utility>

namespace horo::ops {
namespace {

double norm_of_gradients(std::span<Parameter* const> parameters) {
  double sum = 0;
  for (const Parameter* parameter : parameters)
    for (const float gradient : std::as_const(parameter->gradient).values())
      sum += static_cast<double>(gradient) * static_cast<double>(gradient);
  return std::sqrt(sum);
}

void scale_gradients(std::span<Parameter* const> parameters, float factor) {
  for (Parameter* parameter : parameters)
    for (float& gradient : parameter->gradient.values()) gradient *= factor;
}

}  // namespace

LocalUpdate::LocalUpdate(Context& context, Optimizer& optimizer, const StepScalars& scalars,
                         const LocalUpdateOptions& options)
    : context_(context),
      optimizer_(optimizer),
      scalars_(scalars),
      options_(options),
      exchange_(context) {
  const std::span<Parameter* const> parameters = optimizer.parameters();
  check(options.steps, parameters.size());
  std::vector<std::size_t> counts;
  for (const Parameter* parameter : parameters) counts.push_back(parameter->value.count());
  for (const ParameterRange& range : split_into_fragments(counts, options.steps.fragments))
    fragments_.emplace_back(context, parameters.subspan(range.first, range.end - range.first),
                            fmt::format("train.outer.{}", fragments_.size()), options.steps,
                            options.exchange);
  launches_.resize(fragments_.size());
}

void LocalUpdate::begin_step(std::uint64_t done) {
  show_own();
  done_ = done + 1;
  has_updated_ = false;
  is_agreed_ = false;
}

bool LocalUpdate::is_due(std::size_t fragment) const {
  return is_exchanged_after(options_.steps, fragment, done_);
}

// What an exchange sends includes the update of the current step. Waits are here and not in
// update(), so that their time counts as exposed communication.
void LocalUpdate::exchange() {
  if (done_ == options_.last_step) {
    update_own();
    return synchronise();
  }
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    if (!is_due(f)) continue;
    update_own();
    launch(f, done_ + options_.steps.overlap);
  }
  for (OuterFragment& fragment : fragments_)
    if (fragment.merge_after() == done_) fragment.wait();
}

void LocalUpdate::update() {
  update_own();
  const float mixing = options_.steps.overlap > 0 ? options_.steps.mixing : 0;
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    if (fragments_[f].merge_after() == done_) merge(f, true, mixing);
}

// Ranks may decide differently whether they skip their own update: their parameters differ until
// the next exchange in any case.
void LocalUpdate::update_own() {
  if (std::exchange(has_updated_, true)) return;
  OwnOutcome outcome{.scalars = scalars_};
  if (options_.clip_norm || options_.check_finite) {
    const double norm = norm_of_gradients(optimizer_.parameters());
    const bool is_finite = std::isfinite(norm) && std::isfinite(scalars_.loss);
    outcome.was_skipped = options_.check_finite && !is_finite;
    outcome.was_clipped = is_finite && options_.clip_norm && norm > *options_.clip_norm;
    if (outcome.was_clipped)
      scale_gradients(optimizer_.parameters(), static_cast<float>(*options_.clip_norm / norm));
  }
  exchange_.add(outcome);
  if (!outcome.was_skipped) optimizer_.step();
}

void LocalUpdate::launch(std::size_t fragment, std::uint64_t merge_after) {
  launches_[fragment] = exchange_.launch();
  fragments_[fragment].launch(merge_after);
}

// The average changes, and with them the decision to reject them, are equal on all ranks.
void LocalUpdate::merge(std::size_t fragment, bool is_outer_update, float mixing) {
  OuterFragment& merged = fragments_[fragment];
  const Parameter* const bad = options_.check_finite ? merged.first_non_finite() : nullptr;
  if (bad != nullptr) {
    rejection_ = fmt::format("the average change of {} is not finite", bad->name);
    merged.reject();
  } else if (is_outer_update) {
    merged.update(mixing);
  } else {
    merged.average();
  }
  std::ranges::move(exchange_.collect(std::exchange(launches_[fragment], 0)),
                    std::back_inserter(outcomes_));
}

// Fragments in flight are launched again after the end of their exchange.
void LocalUpdate::synchronise() {
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    if (fragments_[f].merge_after() > 0) {
      fragments_[f].wait();
      merge(f, true, options_.steps.mixing);
    }
  for (std::size_t f = 0; f < fragments_.size(); ++f) launch(f, done_);
  for (OuterFragment& fragment : fragments_) fragment.wait();
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    merge(f, done_ > 0 && done_ == options_.last_step && is_due(f), 0);
  is_agreed_ = true;
}

std::vector<StepOutcome> LocalUpdate::outcomes(bool all) {
  if (all) std::ranges::move(exchange_.collect(exchange_.launch()), std::back_inserter(outcomes_));
  if (!outcomes_.empty() && !rejection_.empty())
    outcomes_.back().why_skipped = std::exchange(rejection_, {});
  return std::exchange(outcomes_, {});
}

void LocalUpdate::show_agreed() {
  if (std::exchange(is_agreed_shown_, true)) return;
  for (OuterFragment& fragment : fragments_) fragment.swap_values();
}

void LocalUpdate::show_own() {
  if (!std::exchange(is_agreed_shown_, false)) return;
  for (OuterFragment& fragment : fragments_) fragment.swap_values();
}

void LocalUpdate::finish() {
  show_own();
  if (!is_agreed_) synchronise();
}

CompressionFigures LocalUpdate::compression() {
  CompressionFigures figures;
  for (OuterFragment& fragment : fragments_) figures += fragment.sync().compression_report().total;
  return figures;
}

// The optimizer of rank 0 is saved with the parameters, as that of all ranks.
MethodState LocalUpdate::state() {
  show_own();
  MethodState state{.description = describe(options_.steps)};
  for (OuterFragment& fragment : fragments_) {
    for (NamedTensor& tensor : fragment.state()) state.tensors.push_back(std::move(tensor));
    state.syncs.push_back(&fragment.sync());
  }
  if (context_.rank() == 0) return state;
  for (const Optimizer::State& one : optimizer_.states())
    for (std::size_t i = 0; i < one.tensors.size(); ++i)
      state.tensors.push_back(
          {fmt::format("optimizer.{}.{}", one.name, optimizer_.parameters()[i]->name),
           one.tensors[i].view()});
  if (const auto counters = optimizer_.counters(); !counters.empty())
    state.tensors.push_back({"optimizer.counters", TensorView(counters)});
  return state;
}

void LocalUpdate::restored() {
  for (OuterFragment& fragment : fragments_) fragment.restored();
  is_agreed_ = false;
}

}  // namespace horo::ops
