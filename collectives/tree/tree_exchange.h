#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/ring/await.h"
#include "collectives/scattered_buffer.h"
#include "collectives/staging.h"
#include "collectives/stretches.h"

namespace horo::collectives {

/// What a tree allreduce keeps between calls, so that it allocates nothing in the steady state.
struct TreeStaging {
  std::vector<std::byte> bytes;
  std::vector<PointToPoint::Ticket> tickets;
};

/// The group of a tree allreduce, with the tag and the error texts of its messages.
class TreePeers {
 public:
  using Ticket = PointToPoint::Ticket;

  /// `rank_names`: one for each rank of `peers`. Both outlive this.
  TreePeers(PointToPoint& peers, const std::vector<std::string>& rank_names)
      : peers_(peers), rank_names_(rank_names) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  /// Empty messages are not sent: their ticket is 0.
  Ticket start_send(int peer, const std::byte* from, std::size_t bytes);
  Ticket start_receive(int peer, std::byte* to, std::size_t bytes);
  void await_receive(int peer, Ticket ticket) {
    await(peers_, ticket, "to send its part of an allreduce", name_of(peer));
  }
  void await_send(int peer, Ticket ticket) {
    await(peers_, ticket, "to receive a part of an allreduce", name_of(peer));
  }
  void send(int peer, const std::byte* from, std::size_t bytes) {
    await_send(peer, start_send(peer, from, bytes));
  }
  /// The part of a rank that is folded into `peer`: gives its values away and gets the result.
  void send_and_receive(int peer, std::byte* data, std::size_t bytes) {
    send(peer, data, bytes);
    await_receive(peer, start_receive(peer, data, bytes));
  }

 private:
  const std::string& name_of(int peer) const { return rank_names_[static_cast<std::size_t>(peer)]; }

  PointToPoint& peers_;
  const std::vector<std::string>& rank_names_;
};

/// A buffer as one stretch of memory: itself, or where it has several pieces a copy that
/// write_back() takes back.
class WholeBuffer {
 public:
  /// `staging`: buffer.bytes() of memory, used if the buffer has several pieces.
  WholeBuffer(const ScatteredBuffer& buffer, std::byte* staging)
      : buffer_(buffer), data_(contiguous_address(buffer, {0, buffer.count()})) {
    if (data_ != nullptr) return;
    is_copy_ = true;
    data_ = staging;
    gather(buffer, {0, buffer.count()}, data_);
  }
  /// Bytes that `staging` must have.
  static std::size_t staging_bytes(const ScatteredBuffer& buffer) {
    return buffer.pieces().size() > 1 ? buffer.bytes() : 0;
  }

  std::byte* data() const { return data_; }
  void write_back() const {
    if (is_copy_) scatter(buffer_, {0, buffer_.count()}, data_);
  }

 private:
  const ScatteredBuffer& buffer_;
  std::byte* data_;
  bool is_copy_ = false;
};

}  // namespace horo::collectives
