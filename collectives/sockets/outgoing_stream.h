#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "collectives/sockets/socket_listener.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::collectives {

/// What precedes the bytes of each message.
struct MessageHeader {
  std::uint64_t bytes = 0;
  std::int32_t tag = 0;
  std::int32_t unused = 0;
};

/// The messages of one stream from this rank to another rank, over a connection of their own. The
/// first message opens the connection. No function blocks. Only one thread at a time may use an
/// object.
class OutgoingStream {
 public:
  /// The peer, and what is sent to it first.
  struct Target {
    RankAddress address;
    bool is_local = false;  ///< whether the peer is on the node of this rank
    SocketListener::Greeting greeting;
  };

  explicit OutgoingStream(const Target& target) : target_(target) {}

  /// Adds a message to the queue. The caller must not change `bytes` until the message is sent.
  void push(int tag, std::span<const std::byte> bytes);
  /// The same for bytes that the stream owns.
  void push(int tag, std::vector<std::byte> bytes);
  /// Connects if necessary, and sends messages of the queue as far as the kernel accepts them. Does
  /// nothing after a failure.
  void progress();
  /// The number of messages that were sent completely. Messages are sent in the order of push().
  std::uint64_t sent() const { return sent_; }
  /// The number of messages of push().
  std::uint64_t pushed() const { return sent_ + queue_.size(); }
  bool is_idle() const { return queue_.empty(); }
  /// Why no further message can be sent; empty if there was no failure.
  const std::string& failure() const { return failure_; }
  /// Whether a connection was open before the failure. The peer has then closed it, which it also
  /// does when it ends.
  bool was_connected() const { return state_ == State::kOpen; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kClosed, kConnecting, kGreeted, kOpen };
  struct Message {
    MessageHeader header;
    std::span<const std::byte> bytes;
    std::vector<std::byte> owned;  // the memory of `bytes`, or empty
  };

  void start();
  void try_next_address(int error);
  bool advance_connection();
  void send_queue();

  Target target_;
  State state_ = State::kClosed;
  FileDescriptor socket_;
  std::vector<std::string> addresses_;  // of TCP; those that are left to try
  std::string tried_;                   // the address that is being tried
  Clock::time_point started_{};         // of the attempt with `tried_`
  std::deque<Message> queue_;
  std::size_t sent_of_front_ = 0;  // bytes of the front message and its header
  std::uint64_t sent_ = 0;
  std::string failure_;
};

}  // namespace horo::collectives
