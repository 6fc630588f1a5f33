#pragma once

#include <memory>

#include "collectives/rank_group.h"
#include "collectives/transport.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// What the transports between processes have in common: the topology, the shared memory of a node,
/// and the abort signal in it.
class ProcessTransport : public Transport {
 public:
  const Topology& topology() const override { return topology_; }
  const WaitPolicy& wait_policy() const override { return policy_; }
  std::shared_ptr<AbortSignal> abort_signal() const override {
    return {abort_region_, abort_signal_};
  }
  /// Changes the wait policy of this transport and of the objects that it has made, except subsets.
  /// `policy.abort` is replaced by the signal of the node. During the call, no thread may use the
  /// transport or these objects.
  void set_wait_policy(const WaitPolicy& policy);
  std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) override;
  /// See Transport::abort(). The signal does not reach other nodes. Their ranks continue to wait
  /// until a rank of their own node raises their signal, the launcher ends the job, or their waits
  /// time out.
  void abort(const char* text) noexcept override;

 protected:
  /// For the transport of a job. The constructor of the derived class sets topology_, and then
  /// calls share_abort_signal(). Until then, waits check no signal.
  explicit ProcessTransport(const WaitPolicy& policy);
  /// For a subset of `parent`, which shares its abort signal.
  ProcessTransport(const ProcessTransport& parent, Topology topology);

  /// Makes the abort signal in memory of the node. Collective over the node.
  void share_abort_signal();
  /// All ranks of the transport, and those of the node of this rank.
  virtual RankGroup& all_ranks() = 0;
  virtual RankGroup& ranks_of_node() = 0;

  WaitPolicy policy_;
  Topology topology_;

 private:
  std::shared_ptr<SharedRegion> abort_region_;  // shared with the transports of subsets
  AbortSignal* abort_signal_ = nullptr;         // in abort_region_
};

}  // namespace horo::collectives
