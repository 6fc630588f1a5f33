#include "collectives/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/mpi/message_pieces.h"
#include "collectives/mpi/mpi_collectives.h"
#include "collectives/mpi/mpi_point_to_point.h"
#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {

namespace {

// Returns the lowest rank of `comm` on the real node of this rank.
std::uint64_t first_rank_on_node(const MpiComm& comm, const WaitPolicy& policy) {
  MPI_Comm split = MPI_COMM_NULL;
  const int rank = comm.rank();
  // MPI has no nonblocking split, so this call has no timeout. The ranks have just completed the
  // duplication of the communicator, so all of them should make this call soon.
  HORO_MPI(MPI_Comm_split_type(comm.get(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &split));
  const MpiComm node(split);
  MpiBuffer<int> first(rank);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Ibcast(&*first, 1, MPI_INT, 0, node.get(), &request));
  wait_for_mpi(request, policy, "for all ranks to exchange the topology");
  return static_cast<std::uint64_t>(*first);
}

std::string processor_name() {
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  HORO_MPI(MPI_Get_processor_name(name, &length));
  return name;
}

}  // namespace

std::vector<int> world_ranks_of(MPI_Comm comm) {
  MPI_Group own = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  HORO_MPI(MPI_Comm_group(comm, &own));
  HORO_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  int size = 0;
  HORO_MPI(MPI_Group_size(own, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::vector<int> world_ranks(ranks.size(), MPI_UNDEFINED);
  std::iota(ranks.begin(), ranks.end(), 0);
  HORO_MPI(MPI_Group_translate_ranks(own, size, ranks.data(), world, world_ranks.data()));
  MPI_Group_free(&own);
  MPI_Group_free(&world);
  return world_ranks;
}

MpiMessageChannel::MpiMessageChannel(MpiComm comm)
    : comm_(std::move(comm)), rank_(comm_.rank()), size_(comm_.size()) {}

// Control messages are small and usually complete at once. A dead peer must not block the shutdown,
// so the wait is limited to one second.
MpiMessageChannel::~MpiMessageChannel() {
  using namespace std::chrono_literals;
  if (sending_.empty() || !mpi_is_running()) return;
  try {
    const auto end = std::chrono::steady_clock::now() + 1s;
    for (reap(); !sending_.empty() && std::chrono::steady_clock::now() < end; reap())
      std::this_thread::sleep_for(100us);
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
  if (sending_.empty()) return;
  log_warning("{} not delivered before the channel was closed",
              format_count(sending_.size(), "message"));
  // This list is never freed, because MPI may still read the messages.
  new std::list<Sending>(std::move(sending_));
}

// The channel keeps a copy of the bytes until MPI has sent them. A later call of reap() frees the
// copy.
void MpiMessageChannel::send(int destination, std::span<const std::byte> bytes) {
  HORO_CHECK(bytes.size() < kLargestMpiMessage, "a control message must be shorter than 1 GiB");
  reap();
  Sending& sending = sending_.emplace_back();
  sending.bytes.assign(bytes.begin(), bytes.end());
  HORO_MPI(MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                     destination, 0, comm_.get(), &sending.request));
}

std::optional<MessageChannel::Message> MpiMessageChannel::poll() {
  reap();
  int is_there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  HORO_MPI(MPI_Improbe(MPI_ANY_SOURCE, 0, comm_.get(), &is_there, &handle, &status));
  if (!is_there) return std::nullopt;
  int count = 0;
  HORO_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
  Message message{status.MPI_SOURCE, std::vector<std::byte>(static_cast<std::size_t>(count))};
  HORO_MPI(MPI_Mrecv(message.bytes.data(), count, MPI_BYTE, &handle, MPI_STATUS_IGNORE));
  return message;
}

void MpiMessageChannel::reap() {
  for (auto it = sending_.begin(); it != sending_.end();) {
    int is_done = 0;
    HORO_MPI(MPI_Test(&it->request, &is_done, MPI_STATUS_IGNORE));
    it = is_done ? sending_.erase(it) : std::next(it);
  }
}

namespace {

MpiComm duplicate_checked(MPI_Comm comm, const WaitPolicy& policy) {
  int provided = MPI_THREAD_SINGLE;
  HORO_MPI(MPI_Query_thread(&provided));
  HORO_CHECK(provided >= MPI_THREAD_MULTIPLE,
             "horo calls MPI from several threads: initialise it with "
             "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...)");
  return MpiComm::duplicate_of(comm, policy, kWaitForAllRanks);
}

MpiComm split_by_node(const MpiComm& comm, const Topology& topology) {
  MPI_Comm node = MPI_COMM_NULL;
  HORO_MPI(MPI_Comm_split(comm.get(), topology.node, topology.rank, &node));
  return MpiComm(node);
}

}  // namespace

MpiTransport::MpiTransport(MPI_Comm comm, const WaitPolicy& policy, std::size_t ranks_per_node)
    : ProcessTransport(policy), all_(duplicate_checked(comm, policy_), policy_) {
  topology_ = gather_topology(all_, first_rank_on_node(all_.comm(), policy_), processor_name(),
                              ranks_per_node);
  node_.emplace(split_by_node(all_.comm(), topology_), policy_);
  share_abort_signal();
}

MpiTransport::MpiTransport(const MpiTransport& parent, MpiComm comm, Topology topology)
    : ProcessTransport(parent, std::move(topology)), all_(std::move(comm), policy_) {
  node_.emplace(split_by_node(all_.comm(), topology_), policy_);
}

std::unique_ptr<PointToPoint> MpiTransport::make_point_to_point() {
  return std::make_unique<MpiPointToPoint>(MpiComm::duplicate_of(all_.comm().get(), policy_),
                                           policy_);
}

std::unique_ptr<MessageChannel> MpiTransport::make_message_channel() {
  return std::make_unique<MpiMessageChannel>(MpiComm::duplicate_of(all_.comm().get(), policy_));
}

std::unique_ptr<Collectives> MpiTransport::make_reference_collectives() {
  return std::make_unique<MpiCollectives>(MpiComm::duplicate_of(all_.comm().get(), policy_),
                                          policy_);
}

std::unique_ptr<Transport> MpiTransport::make_subset(const std::vector<int>& members, int number) {
  const bool is_member = std::ranges::find(members, topology_.rank) != members.end();
  MPI_Comm split = MPI_COMM_NULL;
  // The key is the rank, so the members keep their order, as in Topology::subset().
  HORO_MPI(
      MPI_Comm_split(all_.comm().get(), is_member ? 0 : MPI_UNDEFINED, topology_.rank, &split));
  if (!is_member) return nullptr;
  return std::unique_ptr<Transport>(
      new MpiTransport(*this, MpiComm(split), topology_.subset(members, number)));
}

}  // namespace horo::collectives
