#pragma once

#include <string>

#include "ops/train/bottleneck/diagnosis.h"

namespace horo::ops {

/// One JSON object with the keys step_ms, steps, summary; ranks (per rank: rank, host, node, ms by
/// phase with straggler_wait, cpu_share, suspended_share, waiting_share, cores, idle_cores,
/// major_faults, involuntary_switches, loader, memory_bandwidth, samples_per_step, and device_busy
/// on a device); communication (bytes, buckets, ms, latency_ms, bandwidth, variants), model
/// (compute_ms, communication_ms, rest_ms, step_ms, predictions, hiding_batch) and recommendations
/// (cause, rank, evidence, remedy, regained_ms). Bandwidths are in bytes per second. Pure.
std::string to_json(const JobBottlenecks& bottlenecks);

}  // namespace horo::ops
