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
/// Work is numbered in steps that all ranks count alike. Step g uses slot g % kSlots of each rank,
/// steps smaller than a slot another place in it each time round: lines that come round again while
/// they are still in the other core's private cache are several times as slow to write and to read
/// as lines that have moved on to the cache that the cores share.
/// For each step a rank announces, in this order: that its slot holds its input (posted), that its
/// slot holds its part of the result (reduced), and that it has read all it needs of the others'
/// slots (consumed). A slot is written again only when all ranks have consumed its earlier step.
/// Used by one thread at a time.
class NodeMemory {
 public:
  static constexpr std::uint32_t kSlots = 4;
  /// All slots of a rank together are to be larger than what a core's private cache keeps (1 MiB on
  /// many), those of all ranks smaller than the shared one. With 2 ranks on a shared cache of
  /// 32 MiB, 4 MiB a rank were 2 to 3 times as fast as 1 MiB for buffers of 16 and 64 KiB.
  static constexpr std::size_t kMostSlotBytes = 1024 * 1024;
  static constexpr std::size_t kSlotBytesOfAllRanks = 2 * kMostSlotBytes;

  /// Bytes of shared memory needed for `ranks` ranks.
  static std::size_t bytes_needed(int ranks, std::size_t step_bytes, std::size_t direct_bytes);

  /// `region` holds bytes_needed() zero bytes, shared by the ranks. `rank_names[r]` is how rank r
  /// is called in errors. `policy` outlives this.
  NodeMemory(std::unique_ptr<SharedRegion> region, int rank, std::vector<std::string> rank_names,
             std::size_t step_bytes, std::size_t direct_bytes, const WaitPolicy& policy);
  /// Tells the other ranks that this one takes part in no further step; not while an exception
  /// unwinds, when the job's abort signal is about to say more.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The most that a step may carry, a line less than what fits into a slot.
  std::size_t step_bytes() const { return step_bytes_; }
  std::size_t direct_bytes() const { return direct_bytes_; }
  /// Whether waits give up the core at once, so that how long something takes says little.
  bool only_naps() const { return (policy_.spin + policy_.yield).count() == 0; }

  /// Counts steps and exchanges from `number` on, a multiple of kSlots; both begin at 0 otherwise,
  /// and wrap at 2^32. All ranks call it before their first collective, and none begins that before
  /// all have.
  void start_at(std::uint32_t number);
  /// Takes the numbers of the next `count` steps, which carry up to `bytes` (at most step_bytes()
  /// and a line) each; returns the first. All ranks give the same figures.
  std::uint32_t begin_steps(std::uint32_t count, std::size_t bytes);
  /// How many such steps it takes until one comes to a place that was used before.
  std::uint32_t steps_in_all_slots(std::size_t bytes) const;
  /// Where `rank` puts what step `step`, of those begun last, carries. Aligned to a cache line.
  std::byte* slot(int rank, std::uint32_t step) const {
    return ranks_[rank].slots + (step % kSlots) * slot_bytes_ +
           (step / kSlots % places_) * place_bytes_;
  }

  /// Blocks until this rank's slot of `step` may be written.
  void wait_free(std::uint32_t step);
  void wait_posted(int peer, std::uint32_t step);
  void wait_reduced(int peer, std::uint32_t step);
  void post(std::uint32_t step) { ranks_[rank_].flags->posted.publish(step + 1); }
  /// What a rank says of itself with its first post() of a collective.
  struct Note {
    std::uint32_t shift = 0;   ///< the byte of a cache line at which its values begin
    std::uint32_t doubts = 0;  ///< whether it wants the stores to be probed anew
  };
  void set_note(const Note& note) { ranks_[rank_].flags->posted.set_inline(note); }
  /// Of another rank; from the return of wait_posted() to this rank's next publication.
  Note note_of(int peer) const { return ranks_[peer].flags->posted.get_inline<Note>(); }
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
    Flag departed;  // 1 + the rank of the node that was the first to leave, as far as is known
  };
  struct RankMemory {
    RankFlags* flags = nullptr;
    std::byte* direct = nullptr;  // two buffers of direct_bytes_
    std::byte* slots = nullptr;   // kSlots slots of slot_bytes_
    std::string name;
  };

  void wait(Flag& flag, std::uint32_t target, int peer, std::string_view purpose);
  [[noreturn]] void end_without(int peer);
  static std::size_t bytes_of_rank(std::size_t slot_bytes, std::size_t direct_bytes);
  Flag& direct_flag(int rank, std::uint32_t exchange) const {
    return ranks_[rank].flags->direct[exchange % 2];
  }

  std::unique_ptr<SharedRegion> region_;
  int rank_;
  int size_;
  std::size_t step_bytes_;
  std::size_t slot_bytes_;
  std::size_t direct_bytes_;
  const WaitPolicy& policy_;
  std::vector<RankMemory> ranks_;
  std::uint32_t next_step_ = 0;
  // How the slots are divided for the steps begun last.
  std::size_t place_bytes_ = 0;
  std::uint32_t places_ = 1;
  std::uint32_t direct_ = 0;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace horo::collectives
