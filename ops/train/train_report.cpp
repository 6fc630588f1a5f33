#include "ops/train/train_report.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "horo/horo.h"
#include "ops/train/bottleneck/report_json.h"

namespace horo::ops {

namespace {

nlohmann::ordered_json step_json(const StepTimes& times) {
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    json[std::string(name_of(static_cast<StepPhase>(i)))] = times.phase_ms[i];
  json["total"] = times.total_ms;
  return json;
}

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

nlohmann::ordered_json loader_json(const LoaderReport& loader) {
  nlohmann::ordered_json json;
  json["threads"] = loader.threads;
  json["prefetch"] = loader.prefetch;
  json["waited_ms"] = milliseconds(loader.waited);
  json["reading_ms"] = milliseconds(loader.reading.time);
  json["reading_cpu_ms"] = milliseconds(loader.reading.cpu_time);
  return json;
}

}  // namespace

std::string to_json(const TrainReport& report) {
  nlohmann::ordered_json json;
  json["ranks"] = report.ranks;
  json["epochs"] = report.epochs;
  json["first_step"] = report.first_step;
  json["steps"] = report.steps;
  json["was_stopped"] = report.was_stopped;
  json["global_batch"] = report.global_batch;
  json["batch_shares"] = report.batch_shares;
  json["test_accuracy"] = report.test_accuracy;
  json["test_loss"] = report.test_loss;
  json["losses"] = report.losses;
  json["param_hash"] = report.param_hash;
  json["samples_per_second"] = report.samples_per_second;
  json["step_ms"] = step_json(report.median_step);
  json["control_messages_per_step"] = report.control_messages_per_step;
  json["clipped_steps"] = report.clipped_steps;
  json["skipped_steps"] = report.skipped_steps;
  json["loss_scale"] = report.loss_scale;
  json["bad_samples"] = report.bad_samples;
  json["loader"] = loader_json(report.loader);
  json["compression_rate"] = report.compression.compression_rate();
  json["compression_error"] = report.compression.relative_error();
  const CheckpointFigures& checkpoints = report.checkpoints;
  json["checkpoints"] = {{"written", checkpoints.written},
                         {"failed", checkpoints.failed},
                         {"bytes", checkpoints.bytes},
                         {"training_waited_ms", checkpoints.training_waited_ms},
                         {"write_ms", checkpoints.write_ms}};
  json["optimizer_state"] = {{"bytes", report.optimizer_state.bytes},
                             {"whole_bytes", report.optimizer_state.whole_bytes}};
  if (report.bottlenecks)
    json["bottlenecks"] = nlohmann::ordered_json::parse(to_json(*report.bottlenecks));
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_json(const TrainReport& report, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::trunc);
  file << to_json(report);
  // close() flushes, so that a full disk is detected here and not lost in the destructor.
  file.close();
  if (!file) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace horo::ops
