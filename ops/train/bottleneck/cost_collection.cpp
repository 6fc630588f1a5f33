#include "ops/train/bottleneck/cost_collection.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "ops/train/bottleneck/exchange_probe.h"
#include "ops/train/bottleneck/step_replay.h"
#include "ops/train/trainer.h"

namespace horo::ops {
namespace {

using Message = nlohmann::json;

// The device has no work during a part of the waits of the host: as long as the host needs more
// time for a step than the device.
StepTimes combined(StepTimes host, const StepTimes& device) {
  StepTimes result = device;
  double idle = std::max(0.0, host.total_ms - device.total_ms);
  for (const StepPhase phase :
       {StepPhase::kCheckpoint, StepPhase::kDataWait, StepPhase::kLogging, StepPhase::kTransfer}) {
    result[phase] = std::min(host[phase], idle);
    result.total_ms += result[phase];
    idle -= result[phase];
  }
  return result;
}

double milliseconds_per(std::chrono::nanoseconds time, std::uint64_t count) {
  return std::chrono::duration<double, std::milli>(time).count() /
         static_cast<double>(std::max<std::uint64_t>(1, count));
}

LoaderCosts loader_costs(const DataLoader* loader) {
  if (loader == nullptr) return {};
  const LoaderReport report = loader->report();
  const ReadingWork& work = report.reading;
  return {.workers = report.threads,
          .prefetch = report.prefetch,
          .reading_ms = milliseconds_per(work.time, work.batches),
          .reading_cpu_ms = milliseconds_per(work.cpu_time, work.batches)};
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Parameters and states are read and written, gradients are read.
double update_bytes(const TrainingRun& run) {
  double parameters = 0;
  for (const Parameter* parameter : run.model.parameters())
    parameters += static_cast<double>(parameter->value.bytes());
  return 3 * parameters + 2 * static_cast<double>(run.optimizer.state_bytes());
}

double samples_of_latest_step(const TrainingRun& run) {
  const std::uint64_t latest = run.steps > 0 ? run.steps - 1 : 0;
  return static_cast<double>(run.sampler.local_count(run.sampler.locate(latest)));
}

RankCosts own_costs(TrainingRun& run, const ProcessMeter& process, std::size_t first_step) {
  Context& context = run.context;
  RankCosts costs{.rank = context.rank(),
                  .node = context.node(),
                  .host = host_name(),
                  .steps = compared_steps(run.timer, run.device_timer, first_step),
                  .samples_per_step = samples_of_latest_step(run),
                  .loader = loader_costs(run.loader),
                  .process = process.costs()};
  context.barrier({.name = "report.memory"});
  costs.memory_bandwidth = measure_memory_bandwidth();
  return costs;
}

bool can_measure_exchange(const TrainingRun& run) {
  return run.context.size() > 1 && run.step != nullptr && run.method == nullptr &&
         run.step->device_backend() == nullptr;
}

}  // namespace

std::vector<StepTimes> compared_steps(const StepTimer& host, const StepTimer& device,
                                      std::size_t first) {
  const bool is_on_device = device.step_count() > 0;
  const std::size_t count =
      is_on_device ? std::min(host.step_count(), device.step_count()) : host.step_count();
  if (count == 0) return {};
  first = std::min(first, count - 1);
  if (count - first > kComparedSteps) first = count - kComparedSteps;
  std::vector<StepTimes> steps;
  for (std::size_t step = first; step < count; ++step)
    steps.push_back(is_on_device ? combined(host.steps()[step], device.steps()[step])
                                 : host.steps()[step]);
  return steps;
}

JobCosts collect_costs(TrainingRun& run, const ProcessMeter& process, std::size_t first_step) {
  JobCosts job{.global_batch = run.options.global_batch,
               .nodes = run.context.node_count(),
               .is_on_device = run.device_timer.step_count() > 0,
               .is_synchronous = run.method == nullptr || run.options.shard_optimizer,
               .update_bytes = update_bytes(run)};
  const std::vector<std::byte> own = pack(own_costs(run, process, first_step));
  for (const auto& bytes : run.context.allgather_object(own, {.name = "report.costs"}))
    job.ranks.push_back(unpack(bytes));
  if (!can_measure_exchange(run)) return job;
  const GradientSyncOptions options{.op = run.options.gradient_op,
                                    .wire = run.options.wire,
                                    .compression = run.options.compression};
  const auto tensors = run.step->exchanged_tensors();
  job.communication = measure_communication(run.context, tensors, options);
  // All ranks have the same costs, so all of them decide alike.
  const StepReplay replay(job);
  if (replay.communication_ms() > 0.05 * replay.step_ms())
    job.communication->variants =
        measure_variants(run.context, tensors, options, job.communication->exchange);
  return job;
}

std::vector<std::byte> pack(const RankCosts& costs) {
  const LoaderCosts& loader = costs.loader;
  const ProcessCosts& process = costs.process;
  Message steps = Message::array();
  for (const StepTimes& step : costs.steps) {
    Message row = step.phase_ms;
    row.push_back(step.total_ms);
    steps.push_back(std::move(row));
  }
  const Message json = {
      costs.rank,
      costs.node,
      costs.host,
      costs.samples_per_step,
      costs.memory_bandwidth,
      costs.device_busy.value_or(-1),
      Message::array({loader.workers, loader.prefetch, loader.reading_ms, loader.reading_cpu_ms}),
      Message::array({process.seconds, process.cpu_seconds, process.waiting_seconds,
                      process.suspended_seconds, process.cores, process.idle_cores,
                      process.major_faults, process.involuntary_switches}),
      std::move(steps)};
  const std::vector<std::uint8_t> bytes = Message::to_msgpack(json);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

RankCosts unpack(std::span<const std::byte> bytes) try {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const Message json = Message::from_msgpack(begin, begin + bytes.size());
  RankCosts costs{.rank = json.at(0), .node = json.at(1), .host = json.at(2)};
  costs.samples_per_step = json.at(3);
  costs.memory_bandwidth = json.at(4);
  if (const double busy = json.at(5); busy >= 0) costs.device_busy = busy;
  const Message& loader = json.at(6);
  costs.loader = {loader.at(0), loader.at(1), loader.at(2), loader.at(3)};
  const Message& process = json.at(7);
  costs.process = {process.at(0), process.at(1), process.at(2), process.at(3),
                   process.at(4), process.at(5), process.at(6), process.at(7)};
  for (const Message& row : json.at(8)) {
    StepTimes step;
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) step.phase_ms[phase] = row.at(phase);
    step.total_ms = row.at(kPhaseCount);
    costs.steps.push_back(step);
  }
  return costs;
} catch (const Message::exception& error) {
  throw Error(std::string("the costs of a rank cannot be read: ") + error.what());
}

}  // namespace horo::ops
