#pragma once

#include <span>

#include "horo/horo.h"
#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// Measures the exchange of `gradients` in host memory without computation at the same time: with
/// `options` as training uses them, and the latency and bandwidth of the job. The values of the
/// gradients are undefined afterwards. Collective: all ranks must give the same arguments. Blocks,
/// for about a tenth of a second or three exchanges. The plans are called "report.exchange" and
/// "report.link".
CommunicationCosts measure_communication(Context& context, std::span<const NamedTensor> gradients,
                                         const GradientSyncOptions& options);

/// Measures the exchange with larger buckets and, between nodes, with values of 16 bits, where
/// `options` allow it and the exchange would differ. Rules as above.
std::vector<ExchangeVariant> measure_variants(Context& context,
                                              std::span<const NamedTensor> gradients,
                                              const GradientSyncOptions& options,
                                              const ExchangeCosts& present);

}  // namespace horo::ops
