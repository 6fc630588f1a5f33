#include "horo/plan/tuning/plan_tuning.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "collectives/agreement.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/base/system/line_file.h"
#include "horo/base/text/log.h"
#include "horo/base/text/printable.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/plan/bucket_scheduler.h"
#include "horo/plan/gradients/gradient_checks.h"
#include "horo/plan/plan_agreement.h"

namespace horo::plan {

double StepTuner::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepTuner::StepTuner(std::string name, std::vector<Axis> axes, Clock clock,
                     const TuningSearch::Options& options)
    : name_(std::move(name)),
      clock_(std::move(clock)),
      search_(std::move(axes), options),
      begun_(clock_()) {
  // The ranks agree on the time of a step during the next step. So the first time that the search
  // records in a trial belongs to the previous choice, and the search ignores that time
  // (TuningSearch::Options::uncounted). The first trial has no previous choice, so record 0 in
  // place of that time.
  search_.note_step(0);
}

// Whether own_ is set depends only on the `counts` of the previous step, which is equal on all
// ranks. So all ranks call allreduce() or none does.
bool StepTuner::agree(collectives::Collectives& collectives) {
  if (!own_) return false;
  slowest_ = std::exchange(own_, std::nullopt);
  collectives.allreduce({DataType::kFloat64, &*slowest_, 1}, ReduceOp::kMax);
  return true;
}

// Sends nothing. In the exchange of this step, the ranks have agreed on slowest_, the time of the
// previous step. All ranks pass the same time to the search and therefore make the same choice.
bool StepTuner::end_step(int rank, bool counts) {
  if (counts) own_ = clock_() - begun_;
  const auto seconds = std::exchange(slowest_, std::nullopt);
  if (!seconds) return false;
  const Choice tried = choice();
  const int trials = search_.trials();
  search_.note_step(*seconds);
  if (rank == 0 && search_.trials() != trials)
    log_debug("autotune of gradients '{}': trial {}: {}: {:.3f} ms per step", name_, trials + 1,
              describe_choice(search_.axes(), tried), 1e3 * search_.latest_score());
  return choice() != tried;
}

std::string describe_choice(const std::vector<Axis>& axes, const Choice& choice) {
  std::string text;
  for (std::size_t a = 0; a < axes.size(); ++a)
    text += fmt::format("{}{}={}", a == 0 ? "" : " ", axes[a].name, axes[a].values[choice[a]]);
  return text;
}

namespace {

constexpr const char* kSetting = "HORO_AUTOTUNE";

// Returns TuningKey::model. The signature covers the gradients, the options except `name`, and the
// settings that are listed below. It does not cover the numbers of nodes and ranks, because the key
// has separate fields for them.
std::uint64_t signature(std::span<const NamedTensor> gradients, const GradientSyncOptions& options,
                        const Settings& settings, const PlanChoice& start) {
  const std::vector<std::byte> plan = coordinator::encode(
      describe_plan(gradients, options.op, start.bucket_bytes, start.wire, options.compression,
                    describe_step_options(options, device_of(gradients))));
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
      steps_before_search_(options.reorder ? 2 : 0),
      found_(std::move(found)) {
  if (!options.autotune.value_or(false)) return;
  axes_ = plan_axes(gradients, options, settings, topology);
  key_ = {signature(gradients, options, settings, untuned_), topology.node_count, topology.size};
}

// A result in found_ takes precedence over the file, so that a GradientSync::update() with the same
// names, shapes and types keeps the choice of the earlier search. All ranks make the same decision,
// because found_ is equal on all ranks and all ranks get the line that rank 0 has read.
void PlanTuning::begin(collectives::Collectives& collectives) {
  if (axes_.empty()) {
    if (options_.autotune.value_or(false))
      report("nothing to tune: every value gives the same buckets and messages");
    return;
  }
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

// Only rank 0 reads the file, because the hosts need not share a file system and the file may
// change between two reads. from_rank_0() throws an error of rank 0 on every rank.
std::string PlanTuning::find_in_file(collectives::Collectives& collectives) const {
  const LineFile file(kSetting, settings_.autotune_file);
  return collectives::from_rank_0(
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

void PlanTuning::begin_exchange(StepExchange& step) {
  if (tuner_ && tuner_->agree(step.collectives)) step.count(sizeof(double), 1);
}

// Applies the next choice between two steps. All ranks have the same choice, so they need not agree
// here. The clock of the next step starts after the change, so the measured time does not include
// the cost of the change. After the search, the plan needs only one communicator.
void PlanTuning::end_step(BucketScheduler& scheduler, const StepReport& report) {
  if (!tuner_) return;
  if (steps_before_search_ > 0) {
    if (--steps_before_search_ == 0) begin_step();
    return;
  }
  const PlanChoice before = choice_;
  note_step(report.total_weight > 0);
  PlanCommunicators& communicators = scheduler.communicators();
  if (choice_.algorithm != before.algorithm) communicators.swap();
  communicators.current().set_rings(choice_.ring_segment_bytes, choice_.wire);
  const bool has_other_layout =
      choice_.chunk_bytes != before.chunk_bytes || choice_.nccl_max_ctas != before.nccl_max_ctas;
  if (DevicePlanExchange* const device = scheduler.exchange().on_device()) {
    device->set_chunk_bytes(choice_.chunk_bytes);
    device->set_max_ctas(choice_.nccl_max_ctas);
  }
  if (choice_.bucket_bytes != before.bucket_bytes || has_other_layout)
    scheduler.repack(packing_order(scheduler.plan()),
                     {choice_.bucket_bytes, options_.first_bucket_bytes}, has_other_layout);
  begin_step();
  if (!is_searching()) communicators.drop_spare();
}

void PlanTuning::begin_step() {
  if (!tuner_) return;
  if (tuner_->search().is_finished())
    finish();
  else
    tuner_->begin_step();
}

void PlanTuning::note_step(bool counts) {
  if (tuner_->end_step(topology_.rank, counts)) take(tuner_->choice());
}

void PlanTuning::finish() {
  const TuningSearch& search = tuner_->search();
  const std::string line = tuning_line(key_, axes_, search.choice());
  found_ += line + "\n";
  report(fmt::format("{} {}; {:.3f} ms per step, {:.3f} ms untuned, {} steps",
                     search.has_improved() ? "found" : "kept",
                     describe_choice(axes_, search.choice()),
                     1e3 * (search.has_improved() ? search.best_seconds() : search.start_seconds()),
                     1e3 * search.start_seconds(), search.steps()));
  if (topology_.rank == 0 && !settings_.autotune_file.empty()) keep(line);
  tuner_.reset();
}

// If HORO_AUTOTUNE names a file, rank 0 logs `result` at level info. Otherwise, rank 0 prints
// `result` to stderr, unless the log level is off.
void PlanTuning::report(const std::string& result) const {
  if (topology_.rank != 0) return;
  const std::string text = fmt::format("autotune of gradients '{}': {}", name_, result);
  if (settings_.autotune_file.empty() && log_level() < LogLevel::kOff)
    std::fprintf(stderr, "horo: %s\n", printable(text).c_str());
  else
    log_info("{}", text);
}

// If the line cannot be stored, rank 0 logs a warning, and the job continues with the result.
void PlanTuning::keep(const std::string& line) const {
  try {
    LineFile(kSetting, settings_.autotune_file).append(line, kTuningFileExplanation);
  } catch (const InvalidArgument& error) {
    log_warning("{}; the next job repeats the search", error.what());
  }
}

}  // namespace horo::plan
