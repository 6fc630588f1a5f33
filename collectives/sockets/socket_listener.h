#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "horo/base/system/file_descriptor.h"
#include "horo/base/system/sockets.h"

namespace horo::collectives {

/// How other ranks connect to a rank. Trivially copyable, so that ranks can exchange it.
struct RankAddress {
  Secret secret{};             ///< a connecting rank sends the first half; the reply is the second
  std::uint64_t node_key = 0;  ///< see node_key()
  std::uint64_t local_name = 0;  ///< the random name of the Unix socket
  TcpAddress tcp;
};

/// Returns a number for the node of this process. Processes with equal numbers run on one host in
/// one network namespace, so they can connect through Unix sockets and share memory.
std::uint64_t node_key();

/// The number of a stream of messages between ranks. All ranks use the same number for a stream.
using StreamId = std::uint64_t;

/// The connections of one stream that other ranks have opened to this rank. Thread-safe.
class Inbox {
 public:
  struct Connection {
    int source = 0;  ///< the rank, in the group of the stream, that opened the connection
    FileDescriptor socket;
  };

  /// Returns the oldest connection that has not been taken, or nullopt.
  std::optional<Connection> take();
  void add(Connection connection);

 private:
  std::atomic<std::uint32_t> waiting_{0};  // so that take() of an empty inbox needs no lock
  std::mutex mutex_;                       // guards connections_
  std::deque<Connection> connections_;
};

/// Has messages that the kernel did not accept at once.
class UnsentMessages {
 public:
  virtual ~UnsentMessages() = default;
  /// Sends as much as the kernel accepts. Returns whether nothing is left. The thread of a
  /// SocketListener calls this function.
  virtual bool send_rest() = 0;
};

/// Accepts the connections of other ranks, over TCP and through a Unix socket, on a thread of its
/// own, and sends what other threads could not send at once. The thread sleeps while there is
/// nothing to do. A peer must send a Greeting with the secret of
/// this rank. The number and the duration of connections without a greeting are limited.
/// Thread-safe.
class SocketListener {
 public:
  /// What a connecting rank sends first. The listener replies with the second half of the secret.
  struct Greeting {
    std::uint64_t secret = 0;
    StreamId stream = 0;
    std::int32_t source = 0;  ///< the rank in the group of the stream
    std::int32_t unused = 0;
  };

  /// See host_addresses() for `interfaces`. Throws CommunicationError if the process cannot listen
  /// on any socket.
  explicit SocketListener(std::span<const std::string> interfaces = {});
  ~SocketListener();

  const RankAddress& address() const { return address_; }
  /// Returns the inbox of a stream. Connections that arrived before this call are in it.
  std::shared_ptr<Inbox> open(StreamId stream);
  /// Closes connections of the stream that have not been taken.
  void close(StreamId stream);
  /// Calls messages.send_rest() about every millisecond until it returns true, or until forget().
  /// The caller must not hold a lock that send_rest() needs.
  void send_later(UnsentMessages& messages);
  /// After this call has returned, `messages` is not used.
  void forget(UnsentMessages& messages);

 private:
  struct PendingConnection;
  void run(std::stop_token stop);
  void wake();
  bool send_rests();
  bool receive_greeting(PendingConnection& connection);

  RankAddress address_;
  FileDescriptor tcp_, local_, wake_;
  std::mutex unsent_mutex_;  // guards unsent_; held during send_rest()
  std::vector<UnsentMessages*> unsent_;
  std::mutex mutex_;  // guards inboxes_
  std::map<StreamId, std::shared_ptr<Inbox>> inboxes_;
  std::jthread thread_;  // last, because the thread uses the other members
};

/// Starts to connect to the Unix socket of a rank of the same node. On failure, the result is not
/// open and errno has the reason.
FileDescriptor start_local_connection(const RankAddress& rank);

}  // namespace horo::collectives
