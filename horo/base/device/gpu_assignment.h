#pragma once

#include <string>
#include <utility>
#include <vector>

#include "horo/base/topology.h"

namespace horo::device {

/// Which GPU each rank of a job has: rank k of a node the k-th of those that it sees, and again
/// from the first one where ranks are more than GPUs.
struct GpuAssignment {
  /// gpu_of[r]: the index of rank r's GPU among those that its process sees.
  std::vector<int> gpu_of;
  /// lap_of[r]: how many ranks of its node with smaller numbers have the same GPU.
  std::vector<int> lap_of;

  bool is_shared() const;  ///< whether two ranks have the same GPU
};

/// `gpus_of[r]`: the addresses of the GPUs that rank r sees, in its order, which are equal on a
/// node where the GPUs are; ranks of a node may see different ones. Throws DeviceError, the same on
/// every rank that knows the same, if a rank sees none, or if two would share one and `may_share`
/// is false: with host, rank and GPU of those, and the remedy.
GpuAssignment assign_gpus(const Topology& topology,
                          const std::vector<std::vector<std::string>>& gpus_of, bool may_share);

/// Names and values of environment variables.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// What NCCL must be told on this rank so that ranks may share a GPU; empty if none does.
/// NCCL refuses two ranks of a host on one GPU: to it, the ranks of each lap are a host of their
/// own, and laps talk by sockets. A GPU runs one of several processes at a time, so few large
/// transfers cost least. Results are those of any other transport; times say nothing about NCCL.
Variables sharing_variables(const Topology& topology, const GpuAssignment& assignment);

/// What CUDA must be told where ranks may share a GPU, before the process first asks it anything:
/// to load kernels at once. Loading one at its first launch may wait for kernels that run, and
/// NCCL's wait for the other ranks.
Variables loading_variables();

/// Sets those that the process does not have. Before NCCL is loaded, and while no other thread
/// reads the environment.
void set_missing(const Variables& variables);

}  // namespace horo::device
