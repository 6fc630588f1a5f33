#include "horo/device/gpu_assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "horo/base/error.h"

namespace horo::device {
namespace {

constexpr int kMostRows = 16;

// The ranks of a node, by the address of their GPU.
using Sharers = std::map<std::string, std::vector<int>>;

void refuse_sharing(const Topology& topology, const GpuAssignment& assignment, int node,
                    const Sharers& sharers) {
  const std::vector<int> ranks = topology.ranks_of(node);
  std::string rows;
  int count = 0;
  for (const auto& [address, sharing] : sharers)
    for (const int rank : sharing) {
      if (sharing.size() == 1 || ++count > kMostRows) continue;
      rows +=
          fmt::format("{}rank {} GPU {} ({})", rows.empty() ? "" : ", ", topology.job_rank(rank),
                      assignment.gpu_of[static_cast<std::size_t>(rank)], address);
    }
  if (count > kMostRows) rows += fmt::format(" and {} more", count - kMostRows);
  throw DeviceError(fmt::format(
      "{} ranks on host {} would share {} GPU(s): start at most one rank there for each GPU, or "
      "set HORO_GPU_OVERSUBSCRIBE=on for tests (correct results, slow collectives); on that host: "
      "{}",
      ranks.size(), topology.host_of[static_cast<std::size_t>(node)], sharers.size(), rows));
}

}  // namespace

bool GpuAssignment::is_shared() const {
  return std::ranges::any_of(lap_of, [](int lap) { return lap > 0; });
}

GpuAssignment assign_gpus(const Topology& topology,
                          const std::vector<std::vector<std::string>>& gpus_of, bool may_share) {
  GpuAssignment assignment;
  assignment.gpu_of.assign(gpus_of.size(), 0);
  assignment.lap_of.assign(gpus_of.size(), 0);
  for (int node = 0; node < topology.node_count; ++node) {
    Sharers sharers;
    std::size_t local_rank = 0;
    for (const int rank : topology.ranks_of(node)) {
      const auto r = static_cast<std::size_t>(rank);
      if (gpus_of[r].empty())
        throw DeviceError(
            fmt::format("{} sees no GPU: start ranks only on hosts with GPUs, and check nvidia-smi "
                        "and CUDA_VISIBLE_DEVICES on that host",
                        topology.describe(rank)));
      const std::size_t gpu = local_rank++ % gpus_of[r].size();
      std::vector<int>& sharing = sharers[gpus_of[r][gpu]];
      assignment.gpu_of[r] = static_cast<int>(gpu);
      assignment.lap_of[r] = static_cast<int>(sharing.size());
      sharing.push_back(rank);
    }
    if (!may_share && sharers.size() < local_rank)
      refuse_sharing(topology, assignment, node, sharers);
  }
  return assignment;
}

Variables sharing_variables(const Topology& topology, const GpuAssignment& assignment) {
  if (!assignment.is_shared()) return {};
  const int lap = assignment.lap_of[static_cast<std::size_t>(topology.rank)];
  Variables variables = {
      {"NCCL_HOSTID",
       fmt::format("{}-node{}-lap{}", topology.host_of[static_cast<std::size_t>(topology.node)],
                   topology.node, lap)},
      {"NCCL_NET", "Socket"},
      {"NCCL_NET_PLUGIN", "none"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_SOCKET_NTHREADS", "2"},
      {"NCCL_NSOCKS_PERTHREAD", "2"},
      // Each switch of the GPU between processes costs a time slice. The Simple protocol needs the
      // fewest switches.
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"},
      {"NCCL_BUFFSIZE", "16777216"},
      {"NCCL_MAX_CTAS", "4"},
      // These features search for GPUs of other hosts, or need a GPU that no other process uses.
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_CUMEM_ENABLE", "0"},
      {"NCCL_RAS_ENABLE", "0"},
  };
  if (topology.node_count == 1) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

Variables loading_variables() { return {{"CUDA_MODULE_LOADING", "EAGER"}}; }

void set_missing(const Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 0);
}

}  // namespace horo::device
