#include "collectives/communicator.h"

#include "collectives/hierarchical/hierarchical_collectives.h"
#include "collectives/parameter_server/parameter_server_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "horo/base/error.h"
#include "horo/base/topology.h"

namespace horo::collectives {
namespace {

std::unique_ptr<Collectives> make_node_collectives(Transport& transport, const Settings& settings,
                                                   const WaitPolicy& policy) {
  const Topology& topology = transport.topology();
  const SharedMemoryCollectives::Options options{settings.segment_bytes, settings.direct_bytes,
                                                 settings.stores};
  return std::make_unique<SharedMemoryCollectives>(
      transport.make_node_region(
          SharedMemoryCollectives::bytes_needed(topology.local_size, options)),
      topology.local_rank, names_of(topology, topology.ranks_of(topology.node)), options, policy);
}

// The returned function refers to `rings` and `report`. The communicator owns both and also the
// function.
template <typename Rings>
std::function<void(std::size_t, std::optional<DataType>)> rings_of(Rings& rings,
                                                                   WireReport& report) {
  return [&](std::size_t segment_bytes, std::optional<DataType> wire) {
    rings.set_segment_bytes(segment_bytes);
    rings.set_wire_type(wire, report);
  };
}

}  // namespace

Algorithm select_algorithm(const Topology& topology, Algorithm setting) {
  if (setting == Algorithm::kSharedMemory && topology.node_count > 1)
    throw InvalidArgument(
        "HORO_ALGORITHM=shared_memory needs all ranks on one node; use auto, hierarchical or ring");
  if (setting != Algorithm::kAuto) return setting;
  if (topology.node_count == 1) return Algorithm::kSharedMemory;
  return topology.node_count == topology.size ? Algorithm::kRing : Algorithm::kHierarchical;
}

Communicator::Communicator(Transport& transport, const Settings& settings,
                           const AllreduceSelection& allreduce, const WaitPolicy& in_node,
                           const WaitPolicy& between_nodes, std::optional<DataType> wire) {
  switch (select_algorithm(transport.topology(), settings.algorithm)) {
    // select_algorithm() never returns kAuto.
    case Algorithm::kAuto:
    case Algorithm::kSharedMemory:
      collectives_ = make_node_collectives(transport, settings, in_node);
      break;
    case Algorithm::kRing: {
      peers_ = transport.make_point_to_point();
      peers_->set_wait_policy(between_nodes);
      auto ring = std::make_unique<RingCollectives>(*peers_, settings.ring_segment_bytes,
                                                    names_of(transport.topology()), allreduce);
      ring->set_wire_type(wire, wire_report_);
      set_rings_ = rings_of(*ring, wire_report_);
      collectives_ = std::move(ring);
      break;
    }
    case Algorithm::kHierarchical: {
      peers_ = transport.make_point_to_point();
      peers_->set_wait_policy(between_nodes);
      node_ = make_node_collectives(transport, settings, in_node);
      auto hierarchical = std::make_unique<HierarchicalCollectives>(
          transport.topology(), *node_, *peers_,
          HierarchicalCollectives::Options{.segment_bytes = settings.ring_segment_bytes,
                                           .allreduce = allreduce});
      hierarchical->set_wire_type(wire, wire_report_);
      set_rings_ = rings_of(*hierarchical, wire_report_);
      collectives_ = std::move(hierarchical);
      break;
    }
    case Algorithm::kParameterServer: {
      peers_ = transport.make_point_to_point();
      peers_->set_wait_policy(between_nodes);
      auto servers = std::make_unique<ParameterServerCollectives>(
          *peers_, settings.ring_segment_bytes, settings.servers, names_of(transport.topology()));
      set_rings_ = rings_of(*servers, wire_report_);
      collectives_ = std::move(servers);
      break;
    }
    case Algorithm::kMpi:
      collectives_ = transport.make_reference_collectives();
      HORO_CHECK(collectives_ != nullptr,
                 "HORO_ALGORITHM=mpi needs messages over MPI: a job started by mpirun, and not "
                 "HORO_MESSAGES=sockets or a thread level of MPI below MPI_THREAD_MULTIPLE");
      break;
  }
  adasum_.emplace(*collectives_, transport.topology().rank, transport.topology().size);
}

void Communicator::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  if (op == ReduceOp::kAdasum)
    adasum_->allreduce(buffer);
  else
    collectives_->allreduce(buffer, op);
}

void Communicator::set_rings(std::size_t segment_bytes, std::optional<DataType> wire) {
  if (set_rings_) set_rings_(segment_bytes, wire);
}

// Destroys peers_ first. After a failure, transfers that access memory of the other members may
// still be in flight. The destructor of peers_ cancels them or waits for them (see
// ~MpiPointToPoint()).
Communicator::~Communicator() { peers_.reset(); }

}  // namespace horo::collectives
