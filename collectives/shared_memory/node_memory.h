#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "collectives/shared_memory/flag.h"
#include "collectives/shared_region.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// The shared memory of one group of ranks on a node, as one of them sees it: per rank a few flags,
/// two small direct buffers and `kSlots` slots.
///
/// Work is numbered in steps that all ranks count alike. Step g uses slot g % kSlots of each rank.
/// For each step a rank announces, in this order: that its slot holds its input (posted), that its
/// slot holds its part of the result (reduced), and that it has read all it needs of the others'
/// slots (consumed). A slot is written again only when all ranks have consumed its earlier step.
/// Used by one thread at a time.
class NodeMemory {
 public:
  static constexpr std::uint32_t kSlots = 4;

  /// Bytes of shared memory needed for `ranks` ranks.
  static std::size_t bytes_needed(int ranks, std::size_t slot_bytes, std::size_t direct_bytes);

  /// `region` holds bytes_needed() zero bytes, shared by the ranks. `rank_names[r]` is how rank r
  /// is called in errors. `policy` outlives this.
  NodeMemory(std::unique_ptr<SharedRegion> region, int rank, std::vector<std::string> rank_names,
             std::size_t slot_bytes, std::size_t direct_bytes, const WaitPolicy& policy);
  /// Tells the other ranks that this one takes part in no further step; not while an exception
  /// unwinds, when the job's abort signal is about to say more.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::size_t direct_bytes() const { return direct_bytes_; }

  /// Counts steps and exchanges from `number` on, a multiple of kSlots; both begin at 0 otherwise,
  /// and wrap at 2^32. All ranks call it before their first collective, and none begins that before
  /// all have.
  void start_at(std::uint32_t number);
  /// Takes the numbers of the next `count` steps; returns the first.
  std::uint32_t begin_steps(std::uint32_t count) {
    const std::uint32_t first = next_step_;
    next_step_ += count;
    return first;
  }
  std::byte* slot(int rank, std::uint32_t step) const {
    return ranks_[rank].slots + (step % kSlots) * slot_bytes_;
  }

  /// Blocks until this rank's slot of `step` may be written.
  void wait_free(std::uint32_t step);
  void wait_posted(int peer, std::uint32_t step);
  void wait_reduced(int peer, std::uint32_t step);
  void post(std::uint32_t step) { ranks_[rank_].flags->posted.publish(step + 1); }
  void publish_reduced(std::uint32_t step) { ranks_[rank_].flags->reduced.publish(step + 1); }
  void consume(std::uint32_t step) { ranks_[rank_].flags->consumed.publish(step + 1); }
  /// Announces everything up to and including `step` at once: for a rank with no part in a
  /// collective's phases. Never lowers a flag.
  void finish(std::uint32_t step);

  /// The direct exchange: two buffers per rank used in turn. Returns the number of a new exchange.
  std::uint32_t begin_direct() { return ++direct_; }
  /// Where `rank` puts `bytes` (at most direct_bytes) of the exchange.
  std::byte* direct_buffer(int rank, std::uint32_t exchange, std::size_t bytes) const;
  void post_direct(std::uint32_t exchange) { direct_flag(rank_, exchange).publish(exchange); }
  void wait_direct(int peer, std::uint32_t exchange);

 private:
  struct RankFlags {
    Flag posted;
    Flag reduced;
    Flag consumed;
    Flag direct[2];
    Flag departed;
  };
  struct RankMemory {
    RankFlags* flags = nullptr;
    std::byte* direct = nullptr;  // two buffers of direct_bytes_
    std::byte* slots = nullptr;   // kSlots slots of slot_bytes_
    std::string name;
  };

  void wait(Flag& flag, std::uint32_t target, int peer, std::string_view purpose);
  static std::size_t bytes_of_rank(std::size_t slot_bytes, std::size_t direct_bytes);
  Flag& direct_flag(int rank, std::uint32_t exchange) const {
    return ranks_[rank].flags->direct[exchange % 2];
  }

  std::unique_ptr<SharedRegion> region_;
  int rank_;
  int size_;
  std::size_t slot_bytes_;
  std::size_t direct_bytes_;
  const WaitPolicy& policy_;
  std::vector<RankMemory> ranks_;
  std::uint32_t next_step_ = 0;
  std::uint32_t direct_ = 0;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace horo::collectives
