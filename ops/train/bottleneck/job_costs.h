#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/train/step/step_timer.h"

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
  std::optional<double> device_busy;  ///< share of time, from NVML
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

/// What the exchange of gradients costs in this job, measured.
struct CommunicationCosts {
  ExchangeCosts exchange;
  double latency_ms = 0;  ///< of an allreduce of 8 bytes
  /// Bytes per second of an allreduce of one buffer of the same size (64 KiB to 32 MiB): busbw as
  /// nccl-tests defines it.
  double bandwidth = 0;
  std::vector<ExchangeVariant> variants;
};

/// The costs of all ranks of a job.
struct JobCosts {
  std::vector<RankCosts> ranks;  ///< by rank, each with the same number of steps
  std::uint64_t global_batch = 0;
  int nodes = 1;
  bool is_on_device = false;
  /// The ranks exchange in every step; false: local steps.
  bool is_synchronous = true;
  /// Bytes that an update of all parameters reads and writes; 0: unknown.
  double update_bytes = 0;
  std::optional<CommunicationCosts> communication;  ///< unset: one rank, or not measured
};

}  // namespace horo::ops
