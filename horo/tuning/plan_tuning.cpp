#include "horo/tuning/plan_tuning.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/base/line_file.h"
#include "horo/base/log.h"
#include "horo/base/printable.h"
#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/wire.h"
#include "horo/from_rank_0.h"
#include "horo/gradient_checks.h"

namespace horo::tuning {
namespace {

constexpr const char* kSetting = "HORO_AUTOTUNE";

// Of all that decides how long a step takes, as far as horo knows it.
std::uint64_t signature(std::span<const NamedTensor> gradients, const GradientSyncOptions& options,
                        const Settings& settings, const PlanChoice& start) {
  const std::vector<std::byte> plan = coordinator::encode(
      coordinator::describe_plan(gradients, options.op, start.bucket_bytes, start.wire,
                                 options.compression, describe_step_options(options)));
  return Hash()
      .add_bytes(plan.data(), plan.size())
      .add(start.ring_segment_bytes)
      .add(name_of(start.algorithm))
      .add(name_of(settings.allreduce))
      .add(settings.segment_bytes)
      .value();
}

}  // namespace

PlanTuning::PlanTuning(std::string name, std::span<const NamedTensor> gradients,
                       const GradientSyncOptions& options, const Settings& settings,
                       const Topology& topology, std::string found)
    : name_(std::move(name)),
      options_(options),
      settings_(settings),
      topology_(topology),
      untuned_(untuned(options, settings)),
      choice_(untuned_),
      found_(std::move(found)) {
  if (!options.autotune.value_or(false)) return;
  axes_ = plan_axes(gradients, options, settings, topology);
  key_ = {signature(gradients, options, settings, untuned_), topology.node_count, topology.size};
}

void PlanTuning::begin(collectives::Collectives& collectives) {
  if (axes_.empty()) return;
  if (const auto known = find_choice(found_, key_, axes_, "")) return take(*known);
  const std::string& path = settings_.autotune_file;
  const std::string line = path.empty() ? "" : find_in_file(collectives);
  if (line.empty()) {
    tuner_.emplace(name_, axes_);
    return;
  }
  const Choice known = find_choice(line, key_, axes_, path).value();
  take(known);
  if (topology_.rank == 0)
    log_info("autotune of gradients '{}': {} from {}", name_, describe_choice(axes_, known), path);
}

std::string PlanTuning::find_in_file(collectives::Collectives& collectives) const {
  const LineFile file(kSetting, settings_.autotune_file);
  return from_rank_0(
      [&] {
        const auto known =
            find_choice(file.read().value_or(""), key_, axes_, settings_.autotune_file);
        return known ? tuning_line(key_, axes_, *known) : std::string();
      },
      collectives, topology_);
}

void PlanTuning::take(const Choice& choice) {
  choice_ = with_values(untuned_, options_, axes_, choice);
}

std::optional<PlanChoice> PlanTuning::other_way() const {
  if (!is_searching() || !has_algorithms(axes_)) return std::nullopt;
  PlanChoice other = choice_;
  other.algorithm = Algorithm::kRing;
  return other;
}

void PlanTuning::begin_step() {
  if (!tuner_) return;
  if (tuner_->search().is_finished())
    finish();
  else
    tuner_->begin_step();
}

void PlanTuning::end_step(bool counts) {
  if (tuner_->end_step(topology_.rank, counts)) take(tuner_->choice());
}

void PlanTuning::finish() {
  const TuningSearch& search = tuner_->search();
  const std::string line = tuning_line(key_, axes_, search.choice());
  found_ += line + "\n";
  if (topology_.rank == 0) {
    const std::string text = fmt::format(
        "autotune of gradients '{}': {} {}; {:.3f} ms a step, {:.3f} ms untuned, {} steps", name_,
        search.has_improved() ? "found" : "kept", describe_choice(axes_, search.choice()),
        1e3 * (search.has_improved() ? search.best_seconds() : search.start_seconds()),
        1e3 * search.start_seconds(), search.steps());
    if (settings_.autotune_file.empty() && log_level() < LogLevel::kOff)
      std::fprintf(stderr, "horo: %s\n", printable(text).c_str());
    else
      log_info("{}", text);
    if (!settings_.autotune_file.empty()) keep(line);
  }
  tuner_.reset();
}

void PlanTuning::keep(const std::string& line) const {
  try {
    LineFile(kSetting, settings_.autotune_file).append(line, kTuningFileExplanation);
  } catch (const InvalidArgument& error) {
    log_warning("{}; the next job searches anew", error.what());
  }
}

}  // namespace horo::tuning
