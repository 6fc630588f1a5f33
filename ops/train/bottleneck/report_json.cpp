#include "ops/train/bottleneck/report_json.h"

#include <nlohmann/json.hpp>

namespace horo::ops {
namespace {

using Json = nlohmann::ordered_json;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

Json phases_json(const RankDiagnosis& rank) {
  Json json;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase)
    json[std::string(name_of(static_cast<StepPhase>(phase)))] = rank.phases.phase_ms[phase];
  json["straggler_wait"] = rank.straggler_wait_ms;
  json["total"] = rank.phases.total_ms;
  return json;
}

Json rank_json(const RankCosts& costs, const RankDiagnosis& diagnosis) {
  const ProcessCosts& process = costs.process;
  Json json{{"rank", costs.rank},
            {"host", costs.host},
            {"node", costs.node},
            {"ms", phases_json(diagnosis)},
            {"cpu_share", share(process.cpu_seconds, process.seconds)},
            {"suspended_share", share(process.suspended_seconds, process.seconds)},
            {"waiting_share", share(process.waiting_seconds, process.seconds)},
            {"cores", process.cores},
            {"idle_cores", process.idle_cores},
            {"major_faults", process.major_faults},
            {"involuntary_switches", process.involuntary_switches},
            {"loader",
             {{"workers", costs.loader.workers},
              {"prefetch", costs.loader.prefetch},
              {"reading_ms_per_batch", costs.loader.reading_ms},
              {"reading_cpu_ms_per_batch", costs.loader.reading_cpu_ms}}},
            {"samples_per_step", costs.samples_per_step},
            {"memory_bandwidth", costs.memory_bandwidth}};
  if (costs.device) {
    json["device_busy"] = costs.device->busy;
    json["device_hot"] = costs.device->hot;
    json["device_power_limited"] = costs.device->power_limited;
    json["device_memory_used"] = costs.device->memory_used;
    json["device_memory_total"] = costs.device->memory_total;
  }
  if (costs.launches)
    json["launches"] = {{"host_ms", costs.launches->host_ms},
                        {"caught_up", costs.launches->caught_up}};
  return json;
}

Json exchange_json(const ExchangeCosts& exchange) {
  return {{"bytes", exchange.bytes}, {"buckets", exchange.buckets}, {"ms", exchange.milliseconds}};
}

Json communication_json(const CommunicationCosts& communication) {
  Json json = exchange_json(communication.exchange);
  if (communication.gather_ms > 0) json["gather_ms"] = communication.gather_ms;
  if (communication.latency_ms > 0) json["latency_ms"] = communication.latency_ms;
  if (communication.bandwidth > 0) json["bandwidth"] = communication.bandwidth;
  json["variants"] = Json::array();
  for (const ExchangeVariant& variant : communication.variants) {
    Json one = exchange_json(variant.costs);
    if (variant.kind == ExchangeVariant::Kind::kBFloat16)
      one["wire"] = "bfloat16";
    else
      one["bucket_bytes"] = variant.bucket_bytes;
    json["variants"].push_back(std::move(one));
  }
  return json;
}

Json model_json(const ScalingModel& model) {
  Json json{{"compute_ms", model.compute_ms},
            {"communication_ms", model.communication_ms},
            {"gather_ms", model.gather_ms},
            {"exposed_ms", model.exposed_ms()},
            {"rest_ms", model.rest_ms},
            {"step_ms", model.step_ms()},
            {"local_steps", model.local_steps.count},
            {"is_lower_bound", model.is_lower_bound},
            {"predictions", Json::array()}};
  for (const ScalingPrediction& prediction : model.predictions)
    json["predictions"].push_back({{"ranks", prediction.ranks},
                                   {"step_ms", prediction.step_ms},
                                   {"efficiency", prediction.efficiency}});
  if (model.hiding_batch) json["hiding_batch"] = *model.hiding_batch;
  return json;
}

}  // namespace

std::string to_json(const JobBottlenecks& bottlenecks) {
  const auto& [costs, diagnosis] = bottlenecks;
  Json json{{"step_ms", diagnosis.step_ms},
            {"steps", diagnosis.steps},
            {"summary", diagnosis.summary},
            {"ranks", Json::array()}};
  for (std::size_t rank = 0; rank < diagnosis.ranks.size(); ++rank)
    json["ranks"].push_back(rank_json(costs.ranks[rank], diagnosis.ranks[rank]));
  if (costs.communication) json["communication"] = communication_json(*costs.communication);
  if (diagnosis.model)
    json["model"] = model_json(*diagnosis.model);
  else
    json["no_model"] = diagnosis.no_model;
  json["notes"] = diagnosis.notes;
  json["recommendations"] = Json::array();
  for (const Recommendation& one : diagnosis.recommendations) {
    Json entry{{"cause", name_of(one.cause)},
               {"evidence", one.evidence},
               {"remedy", one.remedy},
               {"regained_ms", one.regained_ms}};
    if (one.rank >= 0) entry["rank"] = one.rank;
    json["recommendations"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace);
}

}  // namespace horo::ops
