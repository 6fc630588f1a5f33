#include "collectives/mpi/mpi_point_to_point.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "horo/base/text/log.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;

// The longest time for which the destructor waits for sends.
constexpr auto kTimeForSends = 500ms;

}  // namespace

MpiPointToPoint::MpiPointToPoint(MpiComm comm, const WaitPolicy& policy,
                                 std::size_t largest_message)
    : comm_(std::move(comm)),
      policy_(policy),
      largest_message_(largest_message),
      rank_(comm_.rank()),
      size_(comm_.size()) {}

MpiPointToPoint::~MpiPointToPoint() {
  if (free_.size() == transfers_.size() || !mpi_is_running()) return;
  // In an aborted job, transfers in flight are expected, so a warning would only distract from the
  // failure.
  const bool is_aborted = policy_.abort != nullptr && policy_.abort->is_raised();
  log_message(is_aborted ? LogLevel::kDebug : LogLevel::kWarning,
              fmt::format("{} transfers were in flight when their channel was closed",
                          transfers_.size() - free_.size()));
  for (Transfer& transfer : transfers_) {
    if (!transfer.is_receive) continue;
    for (std::size_t i = transfer.done; i < transfer.pieces.size(); ++i) {
      MPI_Cancel(&transfer.pieces[i]);
      MPI_Request_free(&transfer.pieces[i]);
    }
  }
  finish_sends();
}

// The sends read memory that the caller may free after the destructor returns. MPI libraries need
// not support the cancellation of sends, so this function waits until the sends are complete or
// kTimeForSends has passed.
void MpiPointToPoint::finish_sends() {
  const auto deadline = std::chrono::steady_clock::now() + kTimeForSends;
  for (Transfer& transfer : transfers_) {
    if (transfer.is_receive) continue;
    for (std::size_t i = transfer.done; i < transfer.pieces.size(); ++i) {
      int is_done = 0;
      while (is_done == 0 && std::chrono::steady_clock::now() < deadline) {
        MPI_Test(&transfer.pieces[i], &is_done, MPI_STATUS_IGNORE);
        if (is_done == 0) std::this_thread::yield();
      }
    }
  }
}

// A ticket is an index into transfers_ plus one, so 0 is no ticket of an entry. Tickets are reused.
MpiPointToPoint::Transfer& MpiPointToPoint::start(Ticket& ticket, bool is_receive) {
  if (free_.empty()) {
    transfers_.emplace_back();
    free_.push_back(transfers_.size());
  }
  ticket = free_.back();
  free_.pop_back();
  Transfer& transfer = transfers_[ticket - 1];
  transfer.is_receive = is_receive;
  return transfer;
}

PointToPoint::Ticket MpiPointToPoint::start_send(int peer, int tag,
                                                 std::span<const std::byte> bytes) {
  Ticket ticket = 0;
  Transfer& transfer = start(ticket, false);
  for_each_piece(bytes.size(), largest_message_, [&](std::size_t offset, int count) {
    HORO_MPI(MPI_Isend(bytes.data() + offset, count, MPI_BYTE, peer, tag, comm_.get(),
                       &transfer.pieces.emplace_back(MPI_REQUEST_NULL)));
  });
  return ticket;
}

PointToPoint::Ticket MpiPointToPoint::start_receive(int peer, int tag, std::span<std::byte> bytes) {
  Ticket ticket = 0;
  Transfer& transfer = start(ticket, true);
  for_each_piece(bytes.size(), largest_message_, [&](std::size_t offset, int count) {
    HORO_MPI(MPI_Irecv(bytes.data() + offset, count, MPI_BYTE, peer, tag, comm_.get(),
                       &transfer.pieces.emplace_back(MPI_REQUEST_NULL)));
  });
  return ticket;
}

// A transfer of more than largest_message_ bytes has several pieces. Pieces that are complete are
// not tested again.
bool MpiPointToPoint::test(Ticket ticket) {
  if (ticket == 0) return true;
  Transfer& transfer = transfers_[ticket - 1];
  for (; transfer.done < transfer.pieces.size(); ++transfer.done) {
    int is_done = 0;
    HORO_MPI(MPI_Test(&transfer.pieces[transfer.done], &is_done, MPI_STATUS_IGNORE));
    if (!is_done) return false;
  }
  transfer.pieces.clear();
  transfer.done = 0;
  free_.push_back(ticket);
  return true;
}

}  // namespace horo::collectives
