#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace horo::collectives {

/// Small messages of any length between all ranks of the job, for control. Messages from one rank
/// to another arrive in order. Used by one thread at a time.
class MessageChannel {
 public:
  struct Message {
    int source = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~MessageChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends a copy of `bytes`. Does not block.
  virtual void send(int destination, std::span<const std::byte> bytes) = 0;
  /// The next message that has arrived, if any. Does not block.
  virtual std::optional<Message> poll() = 0;
};

}  // namespace horo::collectives
