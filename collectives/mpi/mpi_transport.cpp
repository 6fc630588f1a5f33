#include "collectives/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/mpi/mpi_collectives.h"
#include "collectives/mpi/mpi_message_channel.h"
#include "collectives/mpi/mpi_point_to_point.h"
#include "collectives/mpi/mpi_shared_region.h"
#include "collectives/mpi/mpi_topology.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

WaitPolicy without_abort(WaitPolicy policy) {
  policy.abort = nullptr;
  return policy;
}

MpiComm duplicate_checked(MPI_Comm comm, const WaitPolicy& policy) {
  int provided = MPI_THREAD_SINGLE;
  HORO_MPI(MPI_Query_thread(&provided));
  HORO_CHECK(provided >= MPI_THREAD_MULTIPLE,
             "horo calls MPI from several threads: initialise it with "
             "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...)");
  return MpiComm::duplicate_of(
      comm, policy,
      "in horo::init() for ranks that have not called it: look at what they do before, or whether "
      "they run");
}

MpiComm split_by_node(const MpiComm& comm, const Topology& topology) {
  MPI_Comm node = MPI_COMM_NULL;
  HORO_MPI(MPI_Comm_split(comm.get(), topology.node, topology.rank, &node));
  return MpiComm(node);
}

}  // namespace

MpiTransport::MpiTransport(MPI_Comm comm, const WaitPolicy& policy, std::size_t ranks_per_node)
    : policy_(without_abort(policy)),
      comm_(duplicate_checked(comm, policy_)),
      topology_(gather_topology(comm_, ranks_per_node, policy_)),
      node_comm_(split_by_node(comm_, topology_)),
      abort_region_(MpiSharedRegion::create(node_comm_, sizeof(AbortSignal), policy_)),
      abort_signal_(reinterpret_cast<AbortSignal*>(abort_region_->bytes().data())) {
  policy_.abort = abort_signal_;
}

MpiTransport::MpiTransport(const MpiTransport& parent, MpiComm comm, Topology topology)
    : policy_(parent.policy_),
      comm_(std::move(comm)),
      topology_(std::move(topology)),
      node_comm_(split_by_node(comm_, topology_)),
      abort_region_(parent.abort_region_),
      abort_signal_(parent.abort_signal_) {}

void MpiTransport::set_wait_policy(const WaitPolicy& policy) {
  policy_ = policy;
  policy_.abort = abort_signal_;
}

std::unique_ptr<PointToPoint> MpiTransport::make_point_to_point() {
  return std::make_unique<MpiPointToPoint>(MpiComm::duplicate_of(comm_.get(), policy_), policy_);
}

std::unique_ptr<MessageChannel> MpiTransport::make_message_channel() {
  return std::make_unique<MpiMessageChannel>(MpiComm::duplicate_of(comm_.get(), policy_));
}

std::unique_ptr<SharedRegion> MpiTransport::make_node_region(std::size_t bytes) {
  std::unique_ptr<SharedRegion> region;
  std::string error;
  try {
    region = MpiSharedRegion::create(node_comm_, bytes, policy_);
  } catch (const SharedMemoryError& caught) {
    error = caught.what();
  }
  const int without = first_without(error.empty());
  if (!error.empty()) throw SharedMemoryError(error);
  if (without < topology_.size)
    throw SharedMemoryError(
        fmt::format("the node of {} has not enough shared memory", topology_.describe(without)));
  return region;
}

// The ranks of a node agree already. Without this the other nodes would go on to what comes next
// and wait there.
int MpiTransport::first_without(bool has_memory) const {
  if (topology_.node_count == 1) return topology_.size;
  MpiBuffer<int> own(has_memory ? topology_.size : topology_.rank);
  MpiBuffer<int> first(*own);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Iallreduce(&*own, &*first, 1, MPI_INT, MPI_MIN, comm_.get(), &request));
  wait_for_mpi(request, policy_, "for all nodes to make shared memory");
  return *first;
}

std::unique_ptr<Collectives> MpiTransport::make_reference_collectives() {
  return std::make_unique<MpiCollectives>(MpiComm::duplicate_of(comm_.get(), policy_), policy_);
}

std::unique_ptr<Transport> MpiTransport::make_subset(const std::vector<int>& members, int number) {
  const bool is_member = std::ranges::find(members, topology_.rank) != members.end();
  MPI_Comm split = MPI_COMM_NULL;
  HORO_MPI(MPI_Comm_split(comm_.get(), is_member ? 0 : MPI_UNDEFINED, topology_.rank, &split));
  if (!is_member) return nullptr;
  return std::unique_ptr<Transport>(
      new MpiTransport(*this, MpiComm(split), topology_.subset(members, number)));
}

void MpiTransport::abort(const char* text) noexcept { abort_signal_->raise(text); }

}  // namespace horo::collectives
