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

/// A counter in shared memory. One rank advances the counter, and other ranks wait for it. It has
/// cache lines of its own. Counters wrap. A target is reached if the value is equal to the target
/// or less than 2^31 ahead of the target.
struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
  /// Payload in the cache line of the flag.
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
  /// Sets the counter to `target`. Makes all earlier writes of this rank visible to ranks that see
  /// `target`. May miss a sleeper that registers at the same moment. Such a sleeper wakes after a
  /// short time (see Waiter).
  void publish(std::uint32_t target) {
    value.store(target, std::memory_order_release);
    if (sleepers.load(std::memory_order_relaxed) != 0) futex_wake_all(value);
  }
  /// Blocks until reached(target). Returns false if `departed` is set before the target is reached.
  /// `departed` is the flag of the rank that advances this counter. `what` completes the error text
  /// "waited 5 min ...".
  bool wait(std::uint32_t target, const Flag& departed, const WaitPolicy& policy,
            std::string_view what);
};

/// The shared memory of a group of ranks on a node. Each rank has a few flags, two small direct
/// buffers and `kSlots` slots.
///
/// A collective that is not a direct exchange consists of steps. Steps are numbered across
/// collectives, with the same numbers on all ranks. Step g uses slot g % kSlots of each rank. Steps
/// that are smaller than a slot use a different part of the slot each time. Writing to cache lines
/// that are still in the private cache of another core is several times slower than writing to
/// lines that have moved to the shared cache.
///
/// For each step, a rank publishes up to three flags, in this order. `posted` means that its slot
/// holds its input. `reduced` means that its slot holds its part of the result. `consumed` means
/// that it has read everything that it needs from the slots of the other ranks. A slot is written
/// again only after all ranks have consumed the previous step in this slot. Used by one thread at a
/// time.
class NodeMemory {
 public:
  static constexpr std::uint32_t kSlots = 4;
  /// The limits for the size of one slot. Together, the slots of one rank should be larger than the
  /// private cache of a core (often 1 MiB), and the slots of all ranks smaller than the shared
  /// cache. With 2 ranks and a shared cache of 32 MiB, slots of 4 MiB per rank were 2 to 3 times as
  /// fast as slots of 1 MiB per rank for buffers of 16 and 64 KiB.
  static constexpr std::size_t kMostSlotBytes = 1024 * 1024;
  static constexpr std::size_t kSlotBytesOfAllRanks = 2 * kMostSlotBytes;

  /// Returns the bytes of shared memory that `ranks` ranks need.
  static std::size_t bytes_needed(int ranks, std::size_t step_bytes, std::size_t direct_bytes);

  /// `region` must hold at least bytes_needed() bytes that are zero and shared by the ranks.
  /// `rank_names[r]` is the name of rank r in errors. `policy` must outlive this object.
  NodeMemory(std::unique_ptr<SharedRegion> region, int rank, std::vector<std::string> rank_names,
             std::size_t step_bytes, std::size_t direct_bytes, const WaitPolicy& policy);
  /// Marks this rank as departed, so that waits for this rank fail at once. Does nothing during
  /// stack unwinding, because the abort signal of the job then names the cause.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The maximum payload of a step. A slot is at least one page larger, which leaves room for an
  /// offset within a cache line.
  std::size_t step_bytes() const { return step_bytes_; }
  std::size_t direct_bytes() const { return direct_bytes_; }
  /// Whether waits sleep at once. If they do, measured durations include scheduling delays.
  bool sleeps_at_once() const { return (policy_.spin + policy_.yield).count() == 0; }

  /// Starts to count steps and exchanges at `number`, which must be a multiple of kSlots. Without
  /// this call, the numbers start at 0. Counters wrap at 2^32. All ranks must call this function
  /// before any rank starts its first collective.
  void start_at(std::uint32_t number);
  /// Reserves the numbers of the next `count` steps, each of up to `bytes` (at most step_bytes()
  /// plus one cache line). Returns the first number. All ranks must pass the same arguments.
  std::uint32_t begin_steps(std::uint32_t count, std::size_t bytes);
  /// Returns the number of steps of `bytes` after which the same memory is used again.
  std::uint32_t steps_in_all_slots(std::size_t bytes) const;
  /// Returns the memory of `rank` for step `step`, which must be one of the latest begin_steps().
  /// The memory is aligned to a cache line.
  std::byte* slot(int rank, std::uint32_t step) const {
    return ranks_[rank].slots + (step % kSlots) * slot_bytes_ +
           (step / kSlots % places_) * place_bytes_;
  }

  /// Blocks until this rank may write its slot of `step`.
  void wait_free(std::uint32_t step);
  void wait_posted(int peer, std::uint32_t step);
  void wait_reduced(int peer, std::uint32_t step);
  void post(std::uint32_t step) { ranks_[rank_].flags->posted.publish(step + 1); }
  /// Information that a rank sends with its first post() of a collective. The rank must set the
  /// note before that post(), which publishes the note.
  struct Note {
    std::uint32_t shift = 0;        ///< offset of the rank's values in a cache line
    std::uint32_t wants_probe = 0;  ///< 1 if the rank requests a probe of the stores, else 0
  };
  void set_note(const Note& note) { ranks_[rank_].flags->posted.set_inline(note); }
  /// Returns the note of another rank. The note is valid after wait_posted() has returned and until
  /// this rank publishes its next flag.
  Note note_of(int peer) const { return ranks_[peer].flags->posted.get_inline<Note>(); }
  void publish_reduced(std::uint32_t step) { ranks_[rank_].flags->reduced.publish(step + 1); }
  void consume(std::uint32_t step) { ranks_[rank_].flags->consumed.publish(step + 1); }
  /// Publishes all three flags for all steps up to and including `step`. Used by ranks that do not
  /// take part in every phase of a collective. Never lowers a flag.
  void finish(std::uint32_t step);

  /// Starts a direct exchange and returns its number. The two direct buffers per rank are used
  /// alternately.
  std::uint32_t begin_direct() { return ++direct_; }
  /// Returns the memory of `rank` for `bytes` (at most direct_bytes()) of the exchange.
  std::byte* direct_buffer(int rank, std::uint32_t exchange, std::size_t bytes) const;
  void post_direct(std::uint32_t exchange) { direct_flag(rank_, exchange).publish(exchange); }
  void wait_direct(int peer, std::uint32_t exchange);

 private:
  struct RankFlags {
    Flag posted;
    Flag reduced;
    Flag consumed;
    Flag direct[2];
    Flag departed;  // 1 + the number of the rank that departed first, or 0 if none has departed
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
