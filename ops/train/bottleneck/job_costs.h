#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/train/step/step_timer.h"
#include "ops/train/update/local_steps.h"

namespace horo::ops {

/// How a rank loads its batches. Times are in ms, over all of its loader threads.
struct LoaderCosts {
  std::size_t workers = 0;    ///< threads; 0: the training thread loads
  std::size_t prefetch = 0;   ///< batches loaded ahead, at most one by each thread; 0: unknown
  double reading_ms = 0;      ///< per batch: reading, decoding and augmenting
  double reading_cpu_ms = 0;  ///< the part of reading_ms on a core; the rest is waiting for files
};

/// What the operating system knows of a rank, since the begin of its training.
struct ProcessCosts {
  double seconds = 0;          ///< elapsed
  double cpu_seconds = 0;      ///< of all threads
  double waiting_seconds = 0;  ///< the training thread was ready to run and had no core
  /// No thread of the process could run: it was stopped, throttled by a limit, or swapped out.
  double suspended_seconds = 0;
  double cores = 1;  ///< that this process may use: affinity and limits of its groups
  /// Mean number of cores of the machine that were idle or ran processes of low priority.
  double idle_cores = 0;
  std::uint64_t major_faults = 0;          ///< pages that were read from a disk
  std::uint64_t involuntary_switches = 0;  ///< times that another process took the core
};

/// What the driver of a device knows of its use by all processes, while the rank trained.
struct DeviceCosts {
  double busy = 0;           ///< share of time in which a kernel was running
  double hot = 0;            ///< share of samples with a clock lowered because of the temperature
  double power_limited = 0;  ///< the same because of the power
  std::uint64_t memory_used = 0, memory_total = 0;  ///< bytes, the most of all samples; 0: unknown
};

/// How the host submits the steps to a device, means over the steps.
struct LaunchCosts {
  double host_ms = 0;  ///< per step, from forward to update, without waits for earlier steps
  /// Share of the steps whose forward the device had completed when the host had submitted the
  /// whole step: the device then waits for the host.
  double caught_up = 0;
};

/// The costs of one rank.
struct RankCosts {
  int rank = 0;
  int node = 0;
  std::string host;
  /// The latest steps, the same ones on all ranks, the oldest first. On a device, forward,
  /// backward, exposed communication and optimizer are its times; the other phases are those during
  /// which the device had no work.
  std::vector<StepTimes> steps;
  double samples_per_step = 0;
  LoaderCosts loader;
  ProcessCosts process;
  double memory_bandwidth =
      0;  ///< of copies on all ranks at once, bytes read and written per second
  std::optional<DeviceCosts> device;    ///< unset: no GPU, or its driver does not tell
  std::optional<LaunchCosts> launches;  ///< unset in host memory
};

/// The exchange of the gradients of a step without computation at the same time.
struct ExchangeCosts {
  double bytes = 0;  ///< of the gradients of a rank
  std::size_t buckets = 0;
  double milliseconds = 0;  ///< on the slowest rank
};

/// Another exchange of the same gradients, which was measured too.
struct ExchangeVariant {
  enum class Kind { kLargerBuckets, kBFloat16 };
  Kind kind = Kind::kLargerBuckets;
  std::size_t bucket_bytes = 0;  ///< 0: as now
  ExchangeCosts costs;
};

/// What the exchange of gradients costs in this job, measured; with local steps, that of the
/// changes of all fragments.
struct CommunicationCosts {
  ExchangeCosts exchange;
  double latency_ms = 0;  ///< of an allreduce of 8 bytes; 0: not measured
  /// Bytes per second of an allreduce of one buffer of the same size (64 KiB to 32 MiB): busbw as
  /// nccl-tests defines it. 0: not measured.
  double bandwidth = 0;
  /// With a sharded optimizer `exchange` is the reduce-scatter, and this the allgather of the
  /// parameters after the update; 0: there is none.
  double gather_ms = 0;
  std::vector<ExchangeVariant> variants;
};

/// The costs of all ranks of a job.
struct JobCosts {
  std::vector<RankCosts> ranks;  ///< by rank, each with the same number of steps
  std::uint64_t global_batch = 0;
  int nodes = 1;
  bool is_on_device = false;
  bool is_graph = false;        ///< steps run as a graph, which has no times of its phases
  bool can_be_graph = false;    ///< steps could run as a graph, but do not
  bool is_sharded = false;      ///< each rank updates its share of the parameters
  LocalSteps local_steps{};     ///< count 0: the ranks exchange in every step
  std::uint64_t last_step = 0;  ///< number of the last of the compared steps, from 1
  /// Bytes that an update of all parameters reads and writes; 0: unknown.
  double update_bytes = 0;
  std::optional<CommunicationCosts> communication;
  std::string why_unmeasured;  ///< the reason why `communication` is unset; may be empty
};

}  // namespace horo::ops
