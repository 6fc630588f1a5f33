#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "horo/device/stream.h"
#include "horo/horo.h"
#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// Tensors that are exchanged together. The groups of a step are exchanged one after the other.
using TensorGroups = std::vector<std::vector<NamedTensor>>;

/// Measures the exchange of `groups` in host memory without computation at the same time: with
/// `options` as training uses them, and the latency and bandwidth of the job. The values of the
/// tensors are undefined afterwards. Collective: all ranks must give the same arguments. Blocks,
/// for about a tenth of a second or three exchanges. The plans are called "report.exchange" and
/// "report.link".
CommunicationCosts measure_communication(Context& context, const TensorGroups& groups,
                                         const GradientSyncOptions& options);

/// Measures the exchange with larger buckets and, between nodes, with values of 16 bits, where
/// `options` allow it and the exchange would differ. Rules as above.
std::vector<ExchangeVariant> measure_variants(Context& context, const TensorGroups& groups,
                                              const GradientSyncOptions& options,
                                              const ExchangeCosts& present);

/// Measures the reduce-scatter and the allgather of buckets of float32 elements in host memory, as
/// a sharded optimizer uses them. Rules as above.
CommunicationCosts measure_sharded(Context& context, std::span<const std::size_t> bucket_elements);

/// Measures the exchange of gradients in device memory by `sync`, which registers `gradients` and
/// exchanges once in `passes` passes. It makes no communicator and allocates no device memory;
/// therefore latency and bandwidth are not measured. Rules as above; the device is idle afterwards.
CommunicationCosts measure_on_device(Context& context, GradientSync& sync,
                                     std::span<const NamedTensor> gradients, device::Stream& stream,
                                     std::size_t passes);

}  // namespace horo::ops
