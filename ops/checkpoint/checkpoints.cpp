#include "ops/checkpoint/checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <span>

#include "horo/base/system/durable_file.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "ops/checkpoint/checkpoint_part.h"
#include "ops/checkpoint/sharded_state.h"
#include "ops/checkpoint/training_state.h"
#include "ops/train/trainer.h"

namespace horo::ops {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Runs `work` on this rank and returns the text of the first rank on which it throws Error, the
/// same on all ranks. Empty: it throws on none. Collective.
template <typename Work>
std::string problem_of(Context& context, Work work) {
  std::string own;
  try {
    work();
  } catch (const Error& error) {
    own = error.what();
  }
  for (const auto& text : context.allgather_object(bytes_of(own), {.name = "train.checkpoint"}))
    if (!text.empty()) return {reinterpret_cast<const char*>(text.data()), text.size()};
  return {};
}

/// The complete checkpoints that rank 0 finds, on all ranks.
std::vector<CheckpointName> shared_names(Context& context, const CheckpointDirectory& directory) {
  std::vector<CheckpointName> names;
  const std::string problem = problem_of(context, [&] {
    if (context.rank() == 0) names = directory.complete();
  });
  if (!problem.empty()) throw CheckpointError(problem);
  std::vector<std::byte> bytes(std::as_bytes(std::span(names)).begin(),
                               std::as_bytes(std::span(names)).end());
  context.broadcast_object(bytes, {.name = "train.checkpoint_names"});
  names.resize(bytes.size() / sizeof(CheckpointName));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(names)).begin());
  return names;
}

/// The parts that this rank needs: rank 0 reads part 0, and all parts if their ranks do not exist
/// any more or have shards of the optimizer state; other ranks read their own part.
std::vector<Safetensors> read_parts(const Context& context, const CheckpointDirectory& directory,
                                    const CheckpointName& name) {
  const bool has_own = name.parts == context.size();
  std::vector<Safetensors> parts;
  bool needs_all = !has_own;
  for (int part = 0; part < name.parts; ++part) {
    const bool is_for_this_rank = has_own && context.rank() == part;
    const bool is_for_first_rank = context.rank() == 0 && needs_all;
    if (!is_for_this_rank && !is_for_first_rank) continue;
    parts.push_back(read_part(directory, name, part));
    needs_all |= part == 0 && has_sharded_state(parts[0]);
  }
  return parts;
}

/// The text of rank 0's `part0` with this key, on all ranks; empty if there is none.
std::string shared_metadata(TrainingRun& run, const Safetensors* part0, const std::string& key) {
  const std::string_view saved = part0 == nullptr ? std::string_view() : part0->metadata(key);
  std::vector<std::byte> text(bytes_of(saved).begin(), bytes_of(saved).end());
  run.context.broadcast_object(text, {.name = "train.callback_state"});
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

// A run in float16 may continue one in another type, which has no loss scale.
void share_states(TrainingRun& run, const Safetensors* part0) {
  const auto& callbacks = run.options.callbacks;
  for (std::size_t i = 0; i < callbacks.size(); ++i)
    if (const std::string state = shared_metadata(run, part0, callback_key(i)); !state.empty())
      callbacks[i]->set_state(state);
  if (run.loss_scaling == nullptr) return;
  if (const std::string state = shared_metadata(run, part0, kLossScaleKey); !state.empty())
    run.loss_scaling->set_state(state);
}

}  // namespace

CheckpointInterval parse_checkpoint_interval(std::string_view text) {
  const bool is_count = !text.empty() && text.size() <= 18 &&
                        text.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_count) return {.steps = std::stoull(std::string(text))};
  return {.time = parse_duration(text)};
}

Checkpoints::Checkpoints(const CheckpointOptions& options)
    : options_(options), directory_(options.directory) {
  HORO_CHECK(!options.directory.empty(), "Checkpoints: no directory is given");
  HORO_CHECK(options.keep > 0, "Checkpoints: keep is 0; at least 1 checkpoint must be kept");
}

void Checkpoints::restore(TrainingRun& run) {
  is_first_rank_ = run.context.rank() == 0;
  const std::string problem = problem_of(run.context, [&] {
    std::error_code error;
    std::filesystem::create_directories(directory_.path(), error);
    if (error)
      throw Error(fmt::format("cannot create {}: {}", directory_.path().string(), error.message()));
  });
  if (!problem.empty()) throw CheckpointError(problem);
  const std::vector<CheckpointName> names = shared_names(run.context, directory_);
  if (!options_.resume && !names.empty())
    throw CheckpointError(
        fmt::format("{} has checkpoints of an earlier run, up to step {}; resume from them, or "
                    "choose another directory",
                    directory_.path().string(), names[0].step));
  CheckpointName used;
  if (!names.empty())
    used = resume(run, names);
  else if (options_.resume)
    run.display.print(fmt::format("no checkpoint in {}: training starts with step 1",
                                  directory_.path().string()));
  clean_up(run.context, names, used);
  latest_step_ = run.steps;
}

CheckpointName Checkpoints::resume(TrainingRun& run, const std::vector<CheckpointName>& names) {
  std::vector<Safetensors> parts;
  const CheckpointName name = read_newest(run, names, parts);
  const std::string what = directory_.file_of(name, 0).string();
  const std::string problem = problem_of(run.context, [&] {
    if (is_first_rank_) require_same_training(run, parts);
  });
  if (!problem.empty()) throw CheckpointError(fmt::format("{}: {}", what, problem));
  share_states(run, is_first_rank_ ? &parts[0] : nullptr);
  if (is_first_rank_) {
    load_common_state(run, parts);
    load_buffers(run, parts);
  }
  if (name.parts == run.context.size()) own_part_ = std::move(parts[0]);
  is_resumed_ = true;
  run.steps = name.step;
  run.display.print(fmt::format("training resumes after step {} from {}", name.step, what));
  return name;
}

// A checkpoint that cannot be read on one rank is used on none.
CheckpointName Checkpoints::read_newest(TrainingRun& run, const std::vector<CheckpointName>& names,
                                        std::vector<Safetensors>& parts) {
  std::string first_problem;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string problem =
        problem_of(run.context, [&] { parts = read_parts(run.context, directory_, names[i]); });
    if (problem.empty()) return names[i];
    if (first_problem.empty()) first_problem = problem;
    if (i + 1 < names.size()) run.display.print(problem + "; the checkpoint before it is used");
  }
  throw CheckpointError(fmt::format("no checkpoint of {} can be used; {}",
                                    directory_.path().string(), first_problem));
}

// Newer checkpoints than the one in use cannot be read. They must not count as the newest ones, and
// parts of them must not become complete with the parts of this run.
void Checkpoints::clean_up(Context& context, const std::vector<CheckpointName>& names,
                           const CheckpointName& used) {
  const std::string problem = problem_of(context, [&] {
    if (!is_first_rank_) return;
    for (const CheckpointName& name : names) {
      if (name == used) break;
      directory_.set_aside(name);
    }
    directory_.remove_leftovers(used.step);
  });
  if (!problem.empty()) throw CheckpointError(problem);
}

void Checkpoints::start(TrainingRun& run) {
  bool has_residuals = false, has_local_state = false;
  if (own_part_) {
    load_buffers(run, {&*own_part_, 1});
    try {
      has_local_state = load_method_state(run, *own_part_);
      if (has_local_state || run.options.local_steps.count == 0)
        has_residuals = load_compression(run, *own_part_);
    } catch (const InvalidArgument& error) {
      throw CheckpointError(error.what());
    }
    own_part_.reset();
  }
  if (is_resumed_ && !has_residuals && run.options.compression.kind != Compression::Kind::kNone)
    run.display.print("the residuals of compression start at zero");
  if (is_resumed_ && !has_local_state && run.options.local_steps.count > 0)
    run.display.print(
        "all ranks continue with the agreed parameters; the outer momentum starts at zero");
  latest_ = Clock::now();
}

// Only rank 0 decides by its clock, so that there is one request for each checkpoint.
StepRequests Checkpoints::requests() {
  const bool is_time =
      options_.every.time.count() > 0 && Clock::now() - latest_ >= options_.every.time;
  if (!is_first_rank_ || !is_time || is_requested_) return {};
  is_requested_ = true;
  return {.save = 1};
}

void Checkpoints::on_outcome(TrainingRun& /*run*/, std::uint64_t /*step*/,
                             const StepOutcome& outcome) {
  is_due_ |= outcome.requests.save > 0;
}

void Checkpoints::after_step(TrainingRun& run) {
  const std::uint64_t steps = options_.every.steps;
  // The end of training changes the parameters of ranks with local steps.
  const bool is_last = run.is_ending && run.options.local_steps.count > 0;
  if (is_due_ || is_last || (steps > 0 && run.steps % steps == 0)) save(run);
}

void Checkpoints::save(TrainingRun& run) {
  const TraceScope pause = run.context.pause("checkpoint");
  const auto begin = Clock::now();
  wait_for_writer();
  const CheckpointName name{run.steps, has_state_per_rank(run) ? run.context.size() : 1};
  const int part = run.context.rank();
  if (part < name.parts) {
    take_snapshot(run, name, part, file_);
    writer_ = std::async(std::launch::async, [this, name, part] { return write(name, part); });
  }
  figures_.training_waited_ms += milliseconds_since(begin);
  latest_step_ = run.steps;
  latest_ = Clock::now();
  is_due_ = is_requested_ = false;
}

double Checkpoints::write(const CheckpointName& name, int part) {
  const auto begin = Clock::now();
  seal(file_);
  write_durably(directory_.file_of(name, part), file_.bytes());
  if (part == 0) directory_.remove_old(options_.keep);
  return milliseconds_since(begin);
}

void Checkpoints::wait_for_writer() {
  if (!writer_.valid()) return;
  failure_.clear();
  try {
    figures_.write_ms += writer_.get();
    ++figures_.written;
    figures_.bytes += file_.bytes().size();
  } catch (const std::exception& error) {
    ++figures_.failed;
    failure_ = error.what();
    log_warning("{}; training continues without this checkpoint", failure_);
  }
}

void Checkpoints::finish(TrainingRun& run, TrainReport& report) {
  if (latest_step_ != run.steps) save(run);
  const TraceScope pause = run.context.pause("checkpoint");
  const auto begin = Clock::now();
  wait_for_writer();
  std::string problem = problem_of(run.context, [&] {
    if (!failure_.empty()) throw Error(failure_);
  });
  // All ranks have written their parts now.
  if (problem.empty() && run.steps > 0)
    problem = problem_of(run.context, [&] {
      const CheckpointName name{run.steps, has_state_per_rank(run) ? run.context.size() : 1};
      if (is_first_rank_ && figures_.written > 0) check_complete(name);
    });
  if (!problem.empty())
    throw CheckpointError(
        fmt::format("the last checkpoint, after step {}, is lost: {}", run.steps, problem));
  figures_.training_waited_ms += milliseconds_since(begin);
  report.checkpoints = figures_;
  if (figures_.written > 0)
    run.display.print(fmt::format(
        "checkpoints: {} of {:.1f} MB in {}, the latest after step {}; training waited {:.1f} ms "
        "for each, writing took {:.1f} ms",
        figures_.written,
        static_cast<double>(figures_.bytes) / 1e6 / static_cast<double>(figures_.written),
        directory_.path().string(), run.steps,
        figures_.training_waited_ms / static_cast<double>(figures_.written),
        figures_.write_ms / static_cast<double>(figures_.written)));
}

void Checkpoints::check_complete(const CheckpointName& name) const {
  const std::vector<CheckpointName> complete = directory_.complete();
  if (std::ranges::find(complete, name) == complete.end())
    throw Error(
        fmt::format("{} lacks parts of other ranks; choose a directory that all hosts share",
                    directory_.path().string()));
  directory_.remove_old(options_.keep);
}

}  // namespace horo::ops
