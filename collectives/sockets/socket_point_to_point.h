#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/sockets/incoming_stream.h"
#include "collectives/sockets/socket_mesh.h"

namespace horo::collectives {

/// Messages of known size over sockets. Each call of test() advances all transfers in both
/// directions, so two ranks that send to each other do not block each other. If a peer closes its
/// connection during a transfer, test() throws CommunicationError two seconds later. Usually the
/// abort signal, which has the cause, ends the wait before.
class SocketPointToPoint : public PointToPoint {
 public:
  /// See SocketStream for `mesh`, `topology` and `id`. `policy` must outlive this object.
  SocketPointToPoint(std::shared_ptr<SocketMesh> mesh, const Topology& topology, StreamId id,
                     const WaitPolicy& policy);
  /// Waits up to half a second for sends in flight.
  ~SocketPointToPoint() override;

  int rank() const override { return stream_.rank(); }
  int size() const override { return stream_.size(); }
  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override;
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override;
  bool test(Ticket ticket) override;

 protected:
  const WaitPolicy& default_wait_policy() const override { return policy_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Transfer {
    int peer = 0;
    bool is_done = false;
  };
  struct Receive {
    Ticket ticket = 0;
    int tag = 0;
    std::span<std::byte> bytes;
  };
  // A message that was received before its receive was started.
  struct Early {
    int tag = 0;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    std::optional<OutgoingStream> out;
    std::deque<Ticket> sends;  // in the order of the messages in `out`
    std::optional<IncomingStream> in;
    std::deque<Receive> receives;
    std::optional<Receive> current;      // the receive whose message is arriving,
    std::optional<Early> current_early;  // or a message without a receive
    std::deque<Early> early;
    std::string failure;  // empty if there was none
    Clock::time_point failed_at{};
    bool is_sending = false, is_receiving = false;  // whether the peer is in the list of that name
  };

  Peer& peer_at(int peer);
  Ticket start(int peer);
  void finish(Ticket ticket) { transfers_[ticket - 1].is_done = true; }
  void progress();
  void progress_sends(Peer& peer);
  void progress_receives(int number, Peer& peer);
  void choose_receive(int number, Peer& peer, const MessageHeader& header);
  void finish_early(int number, Peer& peer);
  static void copy_early(const Early& message, const Receive& receive);
  void check_size(int number, std::size_t sent, std::size_t expected) const;
  static void fail(Peer& peer, const std::string& why);

  SocketStream stream_;
  const WaitPolicy& policy_;
  std::vector<std::unique_ptr<Peer>> peers_;  // null for a peer without transfers
  std::vector<int> sending_, receiving_;      // the peers with transfers in flight
  std::vector<Transfer> transfers_;
  std::vector<Ticket> free_;
};

}  // namespace horo::collectives
