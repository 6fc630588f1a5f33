#include "collectives/process_transport.h"

#include <utility>

#include "collectives/node_memory/node_region.h"

namespace horo::collectives {

ProcessTransport::ProcessTransport(const WaitPolicy& policy) : policy_(policy) {
  policy_.abort = nullptr;
}

ProcessTransport::ProcessTransport(const ProcessTransport& parent, Topology topology)
    : policy_(parent.policy_),
      topology_(std::move(topology)),
      abort_region_(parent.abort_region_),
      abort_signal_(parent.abort_signal_) {}

void ProcessTransport::share_abort_signal() {
  abort_region_ = NodeRegion::create(ranks_of_node(), sizeof(AbortSignal));
  abort_signal_ = reinterpret_cast<AbortSignal*>(abort_region_->bytes().data());
  policy_.abort = abort_signal_;
}

void ProcessTransport::set_wait_policy(const WaitPolicy& policy) {
  policy_ = policy;
  policy_.abort = abort_signal_;
}

std::unique_ptr<SharedRegion> ProcessTransport::make_node_region(std::size_t bytes) {
  return NodeRegion::create_on_nodes(all_ranks(), ranks_of_node(), topology_, bytes);
}

void ProcessTransport::abort(const char* text) noexcept { abort_signal_->raise(text); }

}  // namespace horo::collectives
