#include "collectives/sockets/socket_point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;

// The longest time for which the destructor waits for sends.
constexpr auto kTimeForSends = 500ms;
// The time between the failure of a connection and the error.
constexpr auto kTimeToReportCause = 2s;

}  // namespace

SocketPointToPoint::SocketPointToPoint(std::shared_ptr<SocketMesh> mesh, const Topology& topology,
                                       StreamId id, const WaitPolicy& policy)
    : stream_(std::move(mesh), topology, id),
      policy_(policy),
      peers_(static_cast<std::size_t>(topology.size)) {}

// The kernel sends the bytes that it has accepted, even after the socket is closed. The other bytes
// are in memory that the caller may free after the destructor has returned.
SocketPointToPoint::~SocketPointToPoint() {
  const auto deadline = Clock::now() + kTimeForSends;
  while (!sending_.empty() && Clock::now() < deadline) {
    std::erase_if(sending_, [&](int number) {
      Peer& peer = *peers_[static_cast<std::size_t>(number)];
      peer.out->progress();
      return peer.out->is_idle() || !peer.out->failure().empty();
    });
    if (!sending_.empty()) std::this_thread::yield();
  }
  if (!sending_.empty())
    log_debug("messages to {} ranks were in flight when their channel was closed", sending_.size());
}

SocketPointToPoint::Peer& SocketPointToPoint::peer_at(int peer) {
  std::unique_ptr<Peer>& place = peers_[static_cast<std::size_t>(peer)];
  if (place == nullptr) place = std::make_unique<Peer>();
  return *place;
}

// A ticket is an index into transfers_ plus one, so 0 is no ticket of an entry. Tickets are reused.
PointToPoint::Ticket SocketPointToPoint::start(int peer) {
  if (free_.empty()) {
    transfers_.emplace_back();
    free_.push_back(transfers_.size());
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  transfers_[ticket - 1] = {.peer = peer, .is_done = false};
  return ticket;
}

// Sends at once as much as the kernel accepts, which for small messages is the whole message.
PointToPoint::Ticket SocketPointToPoint::start_send(int peer, int tag,
                                                    std::span<const std::byte> bytes) {
  Peer& to = peer_at(peer);
  if (!to.out) to.out.emplace(stream_.to(peer));
  to.out->push(tag, bytes);
  progress_sends(to);
  if (to.out->is_idle()) return 0;
  const Ticket ticket = start(peer);
  to.sends.push_back(ticket);
  if (!std::exchange(to.is_sending, true)) sending_.push_back(peer);
  return ticket;
}

PointToPoint::Ticket SocketPointToPoint::start_receive(int peer, int tag,
                                                       std::span<std::byte> bytes) {
  Peer& from = peer_at(peer);
  const auto found =
      std::ranges::find_if(from.early, [&](const Early& early) { return early.tag == tag; });
  if (found != from.early.end()) {
    check_size(peer, found->bytes.size(), bytes.size());
    copy_early(*found, {0, tag, bytes});
    from.early.erase(found);
    return 0;
  }
  const Ticket ticket = start(peer);
  from.receives.push_back({ticket, tag, bytes});
  if (!std::exchange(from.is_receiving, true)) receiving_.push_back(peer);
  return ticket;
}

bool SocketPointToPoint::test(Ticket ticket) {
  if (ticket == 0) return true;
  const Transfer& transfer = transfers_[ticket - 1];
  if (!transfer.is_done) progress();
  if (transfer.is_done) {
    free_.push_back(ticket);
    return true;
  }
  const Peer& peer = *peers_[static_cast<std::size_t>(transfer.peer)];
  if (!peer.failure.empty() && Clock::now() - peer.failed_at > kTimeToReportCause)
    throw CommunicationError(fmt::format("{}: {}", stream_.describe(transfer.peer), peer.failure));
  return false;
}

// A rank opens a second connection for a stream only if it has given up the first one before its
// first message. The latest connection is therefore the right one.
void SocketPointToPoint::progress() {
  while (auto connection = stream_.accept())
    peer_at(connection->source).in.emplace(std::move(connection->socket));
  std::erase_if(sending_, [&](int number) {
    Peer& peer = *peers_[static_cast<std::size_t>(number)];
    progress_sends(peer);
    return !(peer.is_sending = !peer.out->is_idle());
  });
  std::erase_if(receiving_, [&](int number) {
    Peer& peer = *peers_[static_cast<std::size_t>(number)];
    if (peer.in) progress_receives(number, peer);
    return !(peer.is_receiving = !peer.receives.empty() || peer.current.has_value());
  });
}

void SocketPointToPoint::progress_sends(Peer& peer) {
  peer.out->progress();
  // Messages that were sent by start_send() at once have no ticket.
  const std::uint64_t unsent = peer.out->pushed() - peer.out->sent();
  while (peer.sends.size() > unsent) {
    finish(peer.sends.front());
    peer.sends.pop_front();
  }
  if (!peer.out->failure().empty()) fail(peer, peer.out->failure());
}

// Reads messages only while there is a receive, so that the memory of early messages stays limited
// by what the peer sends before the messages of these receives.
void SocketPointToPoint::progress_receives(int number, Peer& peer) {
  IncomingStream& in = *peer.in;
  while (!peer.receives.empty() || peer.current) {
    const MessageHeader* header = in.receive_header();
    if (header == nullptr) break;
    if (!peer.current && !peer.current_early) choose_receive(number, peer, *header);
    const std::span<std::byte> bytes =
        peer.current ? peer.current->bytes : std::span(peer.current_early->bytes);
    if (!in.receive_bytes(bytes)) break;
    in.finish_message();
    if (peer.current)
      finish(std::exchange(peer.current, std::nullopt)->ticket);
    else
      finish_early(number, peer);
  }
  if (in.is_closed()) fail(peer, in.failure());
}

void SocketPointToPoint::choose_receive(int number, Peer& peer, const MessageHeader& header) {
  const auto found = std::ranges::find_if(
      peer.receives, [&](const Receive& receive) { return receive.tag == header.tag; });
  if (found == peer.receives.end()) {
    peer.current_early = Early{header.tag, std::vector<std::byte>(header.bytes)};
    return;
  }
  check_size(number, header.bytes, found->bytes.size());
  peer.current = *found;
  peer.receives.erase(found);
}

// The receive may have been started while the message was arriving.
void SocketPointToPoint::finish_early(int number, Peer& peer) {
  Early message = *std::exchange(peer.current_early, std::nullopt);
  const auto found = std::ranges::find_if(
      peer.receives, [&](const Receive& receive) { return receive.tag == message.tag; });
  if (found == peer.receives.end()) {
    peer.early.push_back(std::move(message));
    return;
  }
  check_size(number, message.bytes.size(), found->bytes.size());
  copy_early(message, *found);
  finish(found->ticket);
  peer.receives.erase(found);
}

void SocketPointToPoint::copy_early(const Early& message, const Receive& receive) {
  if (!message.bytes.empty())
    std::memcpy(receive.bytes.data(), message.bytes.data(), message.bytes.size());
}

void SocketPointToPoint::check_size(int number, std::size_t sent, std::size_t expected) const {
  if (sent != expected)
    throw CommunicationError(fmt::format("{} sent {} bytes where rank {} expected {}",
                                         stream_.describe(number), sent, rank(), expected));
}

void SocketPointToPoint::fail(Peer& peer, const std::string& why) {
  if (!peer.failure.empty()) return;
  peer.failure = why;
  peer.failed_at = Clock::now();
}

}  // namespace horo::collectives
