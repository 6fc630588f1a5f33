#pragma once

#include <string>
#include <utility>
#include <vector>

#include "horo/base/topology.h"

namespace horo::device {

/// The GPU of each rank of a job. The k-th rank of a node uses the k-th of the GPUs that this rank
/// sees. If there are more ranks than GPUs, the assignment starts again at the first GPU.
struct GpuAssignment {
  /// gpu_of[r]: the index of rank r's GPU in the list of its process.
  std::vector<int> gpu_of;
  /// lap_of[r]: the lap of rank r, which is the number of lower ranks on the node with the same
  /// GPU.
  std::vector<int> lap_of;

  bool is_shared() const;  ///< whether two ranks have the same GPU
};

/// `gpus_of[r]` has the addresses of the GPUs that rank r sees, in the order in which rank r lists
/// them. Equal addresses on a node are the same GPU. Ranks of a node may see different GPUs. Throws
/// DeviceError if a rank sees no GPU, or if two ranks would share a GPU and `may_share` is false.
/// The error is the same on all ranks with the same arguments and names the host, the ranks, the
/// GPUs and the remedy.
GpuAssignment assign_gpus(const Topology& topology,
                          const std::vector<std::vector<std::string>>& gpus_of, bool may_share);

/// Names and values of environment variables.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables for NCCL on this rank if ranks share a GPU; empty otherwise. NCCL rejects two
/// ranks of a host on one GPU. Therefore the ranks of each lap look like a separate host to NCCL,
/// and laps communicate through sockets. A GPU runs only one of its processes at a time, so few
/// large transfers cost least. Results equal those of any other transport; timings are not
/// representative of NCCL.
Variables sharing_variables(const Topology& topology, const GpuAssignment& assignment);

/// The variables for CUDA if ranks may share a GPU. The caller must set them before the first call
/// to CUDA. CUDA then loads all kernels at the start. Otherwise CUDA would load a kernel at its
/// first launch, which may wait for running kernels, including NCCL kernels that wait for other
/// ranks.
Variables loading_variables();

/// Sets those variables that are not set yet. The caller must call this function before NCCL is
/// loaded and while no other thread reads the environment.
void set_missing(const Variables& variables);

}  // namespace horo::device
