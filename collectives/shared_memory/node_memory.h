#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/shared_region.h"
#include "horo/base/system/futex.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// A counter in shared memory. One rank advances the counter, and other ranks wait for it. The
/// counter has cache lines of its own. It wraps at 2^32. A target is reached if the value is equal
/// to the target or less than 2^31 ahead of the target.
struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
  /// Payload in the same cache line as the value.
  static constexpr std::size_t kInlineBytes = 56;
  std::byte inline_bytes[kInlineBytes];

  template <typename T>
  void set_inline(const T& note) {
    static_assert(sizeof(T) <= kInlineBytes);
    std::memcpy(inline_bytes, &note, sizeof note);
  }
  template <typename T>
  T get_inline() const {
    T note;
    std::memcpy(&note, inline_bytes, sizeof note);
    return note;
  }

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  /// Sets the counter to `target`. All earlier writes of this rank are then visible to ranks for
  /// which reached(target) is true. If these writes include streaming stores, fence() must be
  /// called before. The wake-up may miss a rank that goes to sleep at the same moment, but the
  /// sleep of that rank is bounded (see Waiter).
  void publish(std::uint32_t target) {
    value.store(target, std::memory_order_release);
    if (sleepers.load(std::memory_order_relaxed) != 0) futex_wake_all(value);
  }
  /// Blocks until reached(target), and then returns true. Returns false if the rank that advances
  /// this counter departs before it reaches the target. `departed` is the flag of that rank (see
  /// ~NodeMemory()). `what` completes the error text "waited 5 min ...".
  bool wait(std::uint32_t target, const Flag& departed, const WaitPolicy& policy,
            std::string_view what);
};

/// The shared memory of a group of ranks on a node. Each rank has a few flags, two small direct
/// buffers and `kSlots` slots.
///
/// A collective that is not a direct exchange consists of steps. Steps are numbered across
/// collectives, with the same numbers on all ranks. In step g, each rank may use its slot (g modulo
/// kSlots). If a slot has room for several steps, successive steps in the slot use different parts
/// of it. The cache lines of a part have then usually moved to the shared cache before the part is
/// written again. Writes to lines in the private cache of another core take several times as long.
///
/// For each step, a rank publishes up to three flags, in this order. `posted` means that its slot
/// holds its input. `reduced` means that its slot holds its part of the result. `consumed` means
/// that it has read everything that it needs from the slots of the other ranks. A rank writes a
/// slot again only after all other ranks have consumed the previous step in this slot. In
/// mapped_allreduce(), the mapped buffers take the place of the slots.
///
/// Only one thread at a time may use the object. A wait for a flag that a departed rank has not
/// published (see ~NodeMemory()) throws ShutdownError or CommunicationError.
class NodeMemory {
 public:
  static constexpr std::uint32_t kSlots = 4;
  /// The preferred size of a slot is kSlotBytesOfAllRanks divided by the number of ranks, but at
  /// most kMostSlotBytes. A slot is larger if a step needs more memory. Together, the slots of one
  /// rank should be larger than the private cache of a core (often 1 MiB), and the slots of all
  /// ranks should be smaller than the shared cache. For buffers of 16 and 64 KiB, 2 ranks and a
  /// shared cache of 32 MiB, 4 MiB of slots per rank were 2 to 3 times as fast as 1 MiB of slots
  /// per rank.
  static constexpr std::size_t kMostSlotBytes = 1024 * 1024;
  static constexpr std::size_t kSlotBytesOfAllRanks = 2 * kMostSlotBytes;

  /// Returns the bytes of shared memory that `ranks` ranks need. For the other arguments, see the
  /// constructor.
  static std::size_t bytes_needed(int ranks, std::size_t step_bytes, std::size_t direct_bytes);

  /// `region` is shared by the ranks and must hold at least bytes_needed() bytes, which are zero
  /// before the first rank constructs its object. `rank_names[r]` is the name of rank r in errors.
  /// `step_bytes` is the required maximum payload of a step, and `direct_bytes` that of a direct
  /// exchange. `policy` must outlive this object.
  NodeMemory(std::unique_ptr<SharedRegion> region, int rank, std::vector<std::string> rank_names,
             std::size_t step_bytes, std::size_t direct_bytes, const WaitPolicy& policy);
  /// Marks this rank as departed. Waits for flags that this rank has not published then fail.
  /// During stack unwinding, the destructor does not mark the rank, so that the abort signal of the
  /// job ends these waits and names the cause.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The maximum payload of a step: the value given to the constructor, rounded up. A slot is at
  /// least one page larger, which leaves room for an offset within a cache line.
  std::size_t step_bytes() const { return step_bytes_; }
  /// The maximum payload of a direct exchange.
  std::size_t direct_bytes() const { return direct_bytes_; }
  /// Whether waits sleep after a few polls, without a time to spin or yield. Measured durations
  /// then include scheduling delays.
  bool sleeps_at_once() const { return (policy_.spin + policy_.yield).count() == 0; }

  /// Sets the number of the next step and of the latest direct exchange to `number`, which must be
  /// a multiple of kSlots. Both are 0 at first. All ranks must call this function before any rank
  /// starts its first collective.
  void start_at(std::uint32_t number);
  /// Reserves the numbers of the next `count` steps, each of up to `bytes` (at most step_bytes()
  /// plus one cache line). Returns the first number. All ranks must pass the same arguments.
  std::uint32_t begin_steps(std::uint32_t count, std::size_t bytes);
  /// Returns the number of steps of `bytes` after which the same memory is used again.
  std::uint32_t steps_in_all_slots(std::size_t bytes) const;
  /// Returns the memory of `rank` for step `step`, which must be a step of the latest
  /// begin_steps(). The memory is aligned to a cache line.
  std::byte* slot(int rank, std::uint32_t step) const {
    return ranks_[rank].slots + (step % kSlots) * slot_bytes_ +
           (step / kSlots % places_) * place_bytes_;
  }

  /// Blocks until this rank may write its slot of `step`.
  void wait_free(std::uint32_t step);
  /// Blocks until `peer` has published `posted` or, for wait_reduced(), `reduced` for `step`.
  void wait_posted(int peer, std::uint32_t step);
  void wait_reduced(int peer, std::uint32_t step);
  void post(std::uint32_t step) { ranks_[rank_].flags->posted.publish(step + 1); }
  /// Information that a rank publishes with the first post() of a pipelined_allreduce(). The rank
  /// must set the note before that post().
  struct Note {
    std::uint32_t shift = 0;        ///< bytes from the start of a slot to the values
    std::uint32_t wants_probe = 0;  ///< 1 if the rank requests a probe of the stores, else 0
  };
  void set_note(const Note& note) { ranks_[rank_].flags->posted.set_inline(note); }
  /// Returns the note of another rank. The note is valid from the first wait_posted() of the
  /// collective for that rank until this rank publishes its next flag.
  Note note_of(int peer) const { return ranks_[peer].flags->posted.get_inline<Note>(); }
  void publish_reduced(std::uint32_t step) { ranks_[rank_].flags->reduced.publish(step + 1); }
  void consume(std::uint32_t step) { ranks_[rank_].flags->consumed.publish(step + 1); }
  /// Publishes each of the three flags for `step`, unless this rank has published it before. A
  /// published flag also covers all earlier steps. A collective in which some ranks do not publish
  /// all flags of each step must call this function at its end. Never lowers a flag.
  void finish(std::uint32_t step);

  /// Starts a direct exchange and returns its number. Successive exchanges use the two direct
  /// buffers alternately.
  std::uint32_t begin_direct() { return ++direct_; }
  /// Returns the memory for the values of `rank` in the exchange, which have `bytes` bytes (at most
  /// direct_bytes()).
  std::byte* direct_buffer(int rank, std::uint32_t exchange, std::size_t bytes) const;
  void post_direct(std::uint32_t exchange) { direct_flag(rank_, exchange).publish(exchange); }
  /// Blocks until `peer` has posted the exchange.
  void wait_direct(int peer, std::uint32_t exchange);

 private:
  struct RankFlags {
    Flag posted;
    Flag reduced;
    Flag consumed;
    Flag direct[2];
    // 0 until this rank departs, or fails because another rank has departed. Then 1 + the number of
    // the rank that departed first.
    Flag departed;
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
  // The division of the slots for the latest begin_steps().
  std::size_t place_bytes_ = 0;
  std::uint32_t places_ = 1;
  std::uint32_t direct_ = 0;
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace horo::collectives
