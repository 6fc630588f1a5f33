#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/sub_group.h"

namespace horo::collectives {

/// The order of combination in a tree allreduce. The core consists of ranks 0 ... p-1, where p is
/// the largest power of two that is not above the number of ranks. Each rank p + i outside the core
/// is an extra rank, and rank i is its core rank. A core rank first combines its own values with
/// the values of its extra rank, if it has one. Then, level by level, core ranks at distance 1, 2,
/// 4, ... combine their results. The lower rank of a pair provides the first operand.
///
/// Every tree allreduce (exchange, recursive doubling, halving and doubling) combines each element
/// in this order, so all of them give the same bits.
///
/// Example: 6 ranks have a core of 4 ranks and combine in the order ((0+4)+(1+5)) + (2+3).
class CombinationTree {
 public:
  CombinationTree(int rank, int size) : rank_(rank), size_(size) {
    while (2 * core_ <= size) {
      core_ *= 2;
      ++levels_;
    }
  }

  int core() const { return core_; }      ///< the number of ranks of the core
  int levels() const { return levels_; }  ///< log2 of core()
  bool is_extra() const { return rank_ >= core_; }
  /// Whether this rank is an extra rank or combines its values with those of an extra rank.
  bool has_fold() const { return is_extra() || rank_ + core_ < size_; }
  /// Returns the core rank of this extra rank, or the extra rank of this core rank. Requires
  /// has_fold().
  int fold_peer() const { return is_extra() ? rank_ - core_ : rank_ + core_; }
  /// Returns the peer of this core rank at `level`.
  int peer(int level) const { return rank_ ^ (1 << level); }
  bool is_lower(int level) const { return (rank_ & (1 << level)) == 0; }
  bool is_last(int level) const { return level == levels_ - 1; }

 private:
  int rank_;
  int size_;
  int core_ = 1;
  int levels_ = 0;
};

/// The arithmetic of a tree allreduce. kAverage divides as part of the last combination.
class TreeStep {
 public:
  TreeStep(DataType type, ReduceOp op, int ranks)
      : type_(type), op_(op), ranks_(static_cast<std::size_t>(ranks)) {}

  /// out[i] = lower[i] op higher[i]. If `is_last`, divides for kAverage. `out` may be `lower` or
  /// `higher`.
  void combine(const std::byte* lower, const std::byte* higher, std::size_t count, bool is_last,
               std::byte* out) const {
    const std::byte* sources[] = {lower, higher};
    reduce(type_, is_last ? op_ : without_division(op_), sources, count, ranks_, out,
           Stores::kPlain);
  }
  /// Combines `own` with `received` and stores the result in `own`. `own` is the first operand if
  /// `is_lower`, and the second operand otherwise.
  void accumulate(std::byte* own, const std::byte* received, bool is_lower, std::size_t count,
                  bool is_last) const {
    combine(is_lower ? own : received, is_lower ? received : own, count, is_last, own);
  }

 private:
  DataType type_;
  ReduceOp op_;
  std::size_t ranks_;
};

/// The memory of a tree allreduce. It grows as needed. The caller keeps it between calls to avoid
/// allocations.
struct TreeStaging {
  std::vector<std::byte> bytes;
  std::vector<PointToPoint::Ticket> tickets;
};

/// Sends and receives the messages of a tree allreduce, with their tag and their error texts.
class TreePeers {
 public:
  using Ticket = PointToPoint::Ticket;

  /// `rank_names` has one name per rank of `peers`. Both must outlive this object.
  TreePeers(PointToPoint& peers, const std::vector<std::string>& rank_names)
      : peers_(peers), rank_names_(rank_names) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  /// Starts a transfer. An empty message is not sent, and its ticket is 0.
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
  /// The allreduce of an extra rank. Sends the values to the core rank `peer` and receives the
  /// result in their place.
  void send_and_receive(int peer, std::byte* data, std::size_t bytes) {
    send(peer, data, bytes);
    await_receive(peer, start_receive(peer, data, bytes));
  }

 private:
  const std::string& name_of(int peer) const { return rank_names_[static_cast<std::size_t>(peer)]; }

  PointToPoint& peers_;
  const std::vector<std::string>& rank_names_;
};

inline PointToPoint::Ticket TreePeers::start_send(int peer, const std::byte* from,
                                                  std::size_t bytes) {
  return bytes == 0 ? 0 : peers_.start_send(peer, kExchangeTag, {from, bytes});
}

inline PointToPoint::Ticket TreePeers::start_receive(int peer, std::byte* to, std::size_t bytes) {
  return bytes == 0 ? 0 : peers_.start_receive(peer, kExchangeTag, {to, bytes});
}

/// A buffer as contiguous memory. This is the memory of the buffer itself, or a copy if the buffer
/// has several pieces. If there is a copy, write_back() copies its values back to the buffer.
class WholeBuffer {
 public:
  /// `staging` must have room for staging_bytes(buffer) bytes. Both arguments must outlive this
  /// object.
  WholeBuffer(const ScatteredBuffer& buffer, std::byte* staging)
      : buffer_(buffer), data_(contiguous_address(buffer, {0, buffer.count()})) {
    if (data_ != nullptr) return;
    is_copy_ = true;
    data_ = staging;
    gather(buffer, {0, buffer.count()}, data_);
  }
  /// Returns the size that `staging` must have.
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
