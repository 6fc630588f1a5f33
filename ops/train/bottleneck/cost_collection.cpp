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

RankCosts own_costs(TrainingRun& run, const RankMeasurements& own) {
  Context& context = run.context;
  RankCosts costs{.rank = context.rank(),
                  .node = context.node(),
                  .host = host_name(),
                  .steps = compared_steps(run.timer, run.device_timer, own.first_step),
                  .samples_per_step = samples_of_latest_step(run),
                  .loader = loader_costs(run.loader),
                  .process = own.process.costs(),
                  .device = own.device.costs(),
                  .launches = own.launches};
  context.barrier({.name = "report.memory"});
  costs.memory_bandwidth = measure_memory_bandwidth();
  return costs;
}

Message packed(const std::optional<DeviceCosts>& device) {
  if (!device) return Message::array();
  return Message::array({device->busy, device->hot, device->power_limited, device->memory_used,
                         device->memory_total});
}

Message packed(const std::optional<LaunchCosts>& launches) {
  if (!launches) return Message::array();
  return Message::array({launches->host_ms, launches->caught_up});
}

std::string why_unmeasured(const TrainingRun& run) {
  if (run.context.size() == 1) return "one rank exchanges nothing";
  if (run.options.device.graph && run.step->device_backend() != nullptr)
    return "the phases of steps that run as a graph are unknown";
  return {};
}

// With local steps the fragments are exchanged one after the other. Their gradients have the shapes
// of their changes.
TensorGroups exchanged_groups(const TrainingRun& run) {
  const LocalSteps& local = run.options.local_steps;
  const auto all = run.step->exchanged_tensors();
  if (local.count == 0) return {{all.begin(), all.end()}};
  const std::vector<Parameter*> parameters = run.model.parameters();
  std::vector<std::size_t> counts;
  for (const Parameter* parameter : parameters) counts.push_back(parameter->gradient.count());
  TensorGroups groups;
  for (const ParameterRange& range : split_into_fragments(counts, local.fragments)) {
    auto& group = groups.emplace_back();
    for (std::size_t i = range.first; i < range.end; ++i)
      group.push_back({parameters[i]->name, parameters[i]->gradient.view()});
  }
  return groups;
}

// All ranks have the same costs, so all of them decide alike whether variants are measured.
CommunicationCosts communication_costs(TrainingRun& run, const JobCosts& job) {
  if (DeviceBackend* const backend = run.step->device_backend())
    return measure_on_device(run.context, run.step->sync(), run.step->exchanged_tensors(),
                             backend->stream(), run.options.accumulate);
  if (job.is_sharded) return measure_sharded(run.context, run.method->bucket_elements());
  const GradientSyncOptions options{.op = run.options.gradient_op,
                                    .wire = run.options.wire,
                                    .compression = run.options.compression};
  const TensorGroups groups = exchanged_groups(run);
  CommunicationCosts costs = measure_communication(run.context, groups, options);
  const StepReplay replay(job);
  if (replay.communication_ms() > 0.05 * replay.step_ms())
    costs.variants = measure_variants(run.context, groups, options, costs.exchange);
  return costs;
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

JobCosts collect_costs(TrainingRun& run, const RankMeasurements& own) {
  const TrainerOptions& options = run.options;
  const bool is_on_device = run.device_timer.step_count() > 0;
  JobCosts job{.global_batch = options.global_batch,
               .nodes = run.context.node_count(),
               .is_on_device = is_on_device,
               .is_graph = is_on_device && options.device.graph,
               .can_be_graph = is_on_device && !options.device.graph && options.accumulate == 1 &&
                               !options.shares.automatic,
               .is_sharded = run.method != nullptr && options.shard_optimizer,
               .local_steps = options.local_steps.count == 0 ? LocalSteps{} : options.local_steps,
               .last_step = run.steps,
               .update_bytes = update_bytes(run)};
  const std::vector<std::byte> packed_costs = pack(own_costs(run, own));
  for (const auto& bytes : run.context.allgather_object(packed_costs, {.name = "report.costs"}))
    job.ranks.push_back(unpack(bytes));
  job.why_unmeasured = why_unmeasured(run);
  if (job.why_unmeasured.empty()) job.communication = communication_costs(run, job);
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
      packed(costs.device),
      packed(costs.launches),
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
  if (const Message& device = json.at(5); !device.empty())
    costs.device = {device.at(0), device.at(1), device.at(2), device.at(3), device.at(4)};
  if (const Message& launches = json.at(6); !launches.empty())
    costs.launches = {launches.at(0), launches.at(1)};
  const Message& loader = json.at(7);
  costs.loader = {loader.at(0), loader.at(1), loader.at(2), loader.at(3)};
  const Message& process = json.at(8);
  costs.process = {process.at(0), process.at(1), process.at(2), process.at(3),
                   process.at(4), process.at(5), process.at(6), process.at(7)};
  for (const Message& row : json.at(9)) {
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
