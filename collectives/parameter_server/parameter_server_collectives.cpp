#include "collectives/parameter_server/parameter_server_collectives.h"

#include <algorithm>
#include <utility>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/point_to_point.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/error.h"

namespace horo::collectives {

namespace {

using Ticket = PointToPoint::Ticket;

// Each server owns one chunk of the buffer. Round k exchanges segment k of each chunk. Two rounds
// are in flight: while a server reduces round k - 1, the values of round k arrive. The server
// combines the values in rank order, so the result does not depend on the order of arrival.
//
// Ranks cannot deadlock. A rank posts its receives and starts to send its values of round k before
// it waits for any transfer of round k - 1. A server sends the results of a round when it has
// received the values of this round. A wait therefore depends only on transfers of the same round
// or of earlier rounds.
//
// A rank has finished round k - 2 before it begins round k, so two sets of slots are enough.
class Exchange {
 public:
  Exchange(PointToPoint& peers, const std::vector<std::string>& rank_names, int servers,
           std::size_t segment_count, const ScatteredBuffer& buffer, ReduceOp op,
           std::vector<std::byte>& staging)
      : peers_(peers),
        rank_names_(rank_names),
        servers_(static_cast<std::size_t>(servers)),
        ranks_(static_cast<std::size_t>(peers.size())),
        rank_(static_cast<std::size_t>(peers.rank())),
        segment_count_(segment_count),
        segment_bytes_(segment_count * buffer.element_bytes()),
        buffer_(buffer),
        op_(op) {
    // A round needs one slot for the values to each server and one slot for the result from each
    // server. A server also needs one slot for the values from each rank and one slot for the
    // combined result.
    const std::size_t slots = 2 * servers_ + (is_server() ? ranks_ + 1 : 0);
    if (staging.size() < 2 * slots * segment_bytes_) staging.resize(2 * slots * segment_bytes_);
    for (std::size_t i = 0; i < 2; ++i)
      rounds_[i].memory = staging.data() + i * slots * segment_bytes_;
  }

  void run(std::size_t rounds) {
    for (std::size_t k = 0; k <= rounds; ++k) {
      if (k < rounds) begin(k);
      if (k == 0) continue;
      if (is_server()) serve(k - 1);
      finish(k - 1);
    }
  }

 private:
  struct Round {
    std::byte* memory = nullptr;
    std::vector<Ticket> sends;    // to each server
    std::vector<Ticket> results;  // from each server
    std::vector<Ticket> values;   // from each rank (on a server only)
    std::vector<Ticket> answers;  // to each rank (on a server only)
  };

  bool is_server() const { return rank_ < servers_; }
  Range range(std::size_t server, std::size_t k) const {
    return segment_of(chunk_of(buffer_.count(), servers_, server), k, segment_count_);
  }
  std::size_t bytes(std::size_t server, std::size_t k) const {
    return range(server, k).count() * buffer_.element_bytes();
  }
  std::span<std::byte> slot(Round& round, std::size_t index, std::size_t bytes) const {
    return {round.memory + index * segment_bytes_, bytes};
  }
  std::span<std::byte> sent(Round& round, std::size_t server, std::size_t bytes) const {
    return slot(round, server, bytes);
  }
  std::span<std::byte> result(Round& round, std::size_t server, std::size_t bytes) const {
    return slot(round, servers_ + server, bytes);
  }
  std::span<std::byte> value(Round& round, std::size_t rank, std::size_t bytes) const {
    return slot(round, 2 * servers_ + rank, bytes);
  }
  std::span<std::byte> answer(Round& round, std::size_t bytes) const {
    return slot(round, 2 * servers_ + ranks_, bytes);
  }

  // Posts the receives of the round and starts to send the values of this rank. A server copies its
  // own values directly to the slot that serve() reads.
  void begin(std::size_t k) {
    Round& round = rounds_[k % 2];
    round.sends.assign(servers_, 0);
    round.results.assign(servers_, 0);
    round.values.assign(ranks_, 0);
    round.answers.assign(ranks_, 0);
    const std::size_t own = is_server() ? bytes(rank_, k) : 0;
    if (own > 0)
      for (std::size_t r = 0; r < ranks_; ++r)
        if (r != rank_)
          round.values[r] =
              peers_.start_receive(static_cast<int>(r), kExchangeTag, value(round, r, own));
    for (std::size_t s = 0; s < servers_; ++s) {
      const std::size_t size = bytes(s, k);
      if (size == 0) continue;
      const auto values = s == rank_ ? value(round, rank_, size) : sent(round, s, size);
      gather(buffer_, range(s, k), values.data());
      if (s == rank_) continue;
      round.results[s] =
          peers_.start_receive(static_cast<int>(s), kBroadcastTag, result(round, s, size));
      round.sends[s] = peers_.start_send(static_cast<int>(s), kExchangeTag, values);
    }
  }

  // Waits for the values of all ranks, combines them and starts to send the result to the other
  // ranks. These sends read the slot of the result until finish() has completed them. Only servers
  // call this function.
  void serve(std::size_t k) {
    Round& round = rounds_[k % 2];
    const std::size_t size = bytes(rank_, k);
    if (size == 0) return;
    std::vector<const std::byte*> sources;
    for (std::size_t r = 0; r < ranks_; ++r) {
      await(peers_, round.values[r], "to send its values to a parameter server", rank_names_[r]);
      sources.push_back(value(round, r, size).data());
    }
    const auto combined = answer(round, size);
    reduce(buffer_.type(), op_, sources, range(rank_, k).count(), ranks_, combined.data(),
           Stores::kPlain);
    for (std::size_t r = 0; r < ranks_; ++r)
      if (r != rank_)
        round.answers[r] = peers_.start_send(static_cast<int>(r), kBroadcastTag, combined);
    scatter(buffer_, range(rank_, k), combined.data());
  }

  // Completes the transfers of the round and copies the results of other servers to the buffer.
  // Afterwards, the slots of the round may be used again.
  void finish(std::size_t k) {
    Round& round = rounds_[k % 2];
    for (std::size_t s = 0; s < servers_; ++s) {
      await(peers_, round.sends[s], "to receive values as a parameter server", rank_names_[s]);
      if (round.results[s] == 0) continue;
      await(peers_, round.results[s], "to send its result as a parameter server", rank_names_[s]);
      scatter(buffer_, range(s, k), result(round, s, bytes(s, k)).data());
    }
    for (std::size_t r = 0; r < ranks_; ++r)
      await(peers_, round.answers[r], "to receive the result of a parameter server",
            rank_names_[r]);
  }

  PointToPoint& peers_;
  const std::vector<std::string>& rank_names_;
  std::size_t servers_;
  std::size_t ranks_;
  std::size_t rank_;
  std::size_t segment_count_;
  std::size_t segment_bytes_;
  const ScatteredBuffer& buffer_;
  ReduceOp op_;
  Round rounds_[2];
};

}  // namespace

void parameter_server_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                int servers, std::size_t segment_bytes,
                                const ScatteredBuffer& buffer, ReduceOp op,
                                std::vector<std::byte>& staging) {
  if (peers.size() == 1 || buffer.count() == 0) return;
  const std::size_t largest =
      chunk_of(buffer.count(), static_cast<std::size_t>(servers), 0).count();
  const std::size_t segment_count =
      std::clamp<std::size_t>(segment_bytes / buffer.element_bytes(), 1, largest);
  Exchange(peers, rank_names, servers, segment_count, buffer, op, staging)
      .run(segments_covering(largest, segment_count));
}

ParameterServerCollectives::ParameterServerCollectives(PointToPoint& peers,
                                                       std::size_t segment_bytes,
                                                       std::size_t servers,
                                                       std::vector<std::string> rank_names)
    : RingCollectives(peers, segment_bytes, std::move(rank_names)),
      servers_(std::min(servers, static_cast<std::size_t>(peers.size()))) {
  HORO_CHECK(servers > 0, "the number of parameter servers is 0; must be at least 1");
}

void ParameterServerCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  parameter_server_allreduce(peers(), rank_names(), static_cast<int>(servers_), segment_bytes(),
                             buffer, op, server_staging_);
}

}  // namespace horo::collectives
