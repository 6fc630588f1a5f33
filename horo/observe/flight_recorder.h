#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "horo/base/wait.h"
#include "horo/observe/flight_layout.h"
#include "horo/observe/flight_memory.h"
#include "horo/observe/name_table.h"
#include "horo/observe/open_table.h"

namespace horo::observe {

/// Which rank of which job records, and where.
struct FlightJob {
  std::uint64_t id = 0;  ///< the same on all ranks
  int rank = 0, size = 1, node = 0, node_count = 1;
  std::string host = "localhost";
  std::int64_t clock_offset = 0;  ///< ns to be added to this host's wall clock to get rank 0's
  std::string path;               ///< the file; empty: memory of the process alone
  /// The job's, which tells a failure of this rank from one that follows from another's; may be
  /// null. Outlives the last call of fail().
  const AbortSignal* abort = nullptr;
};

/// CLOCK_MONOTONIC in ns, as the records have it.
inline std::int64_t flight_clock() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// How often a recorder with a file gives a sign of life.
inline constexpr std::chrono::milliseconds kPulseInterval{250};

/// What this rank has done lately and what it is doing, in a file that outlives the process however
/// it ends: the latest finished operations in a ring, the open ones in a table, the state of every
/// plan, the current phase and pause, and whether and why the rank gave up. Without a file it keeps
/// the same in memory, for image().
///
/// All members are thread-safe. An operation costs no system call and no lock: two or three writes
/// of 64 bytes. A thread of its own, if there is a file, wakes up every kPulseInterval.
class FlightRecorder {
 public:
  /// Throws Error if the file cannot be made.
  explicit FlightRecorder(const FlightJob& job);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  const std::string& path() const { return path_; }
  NameId name(std::string_view text) { return names_.id_of(text); }

  /// Notes an operation that was submitted; see OpenFlight.
  OpenFlight open(const FlightRecord& submitted) { return open_.add(submitted, *this); }
  /// Frees a row of the table of open operations, or counts one less without a row; for OpenFlight.
  void close(std::uint32_t row) { open_.free(row); }
  /// Adds a finished operation to the ring.
  void add(const FlightRecord& finished);
  void count_finished(std::uint64_t operations);
  /// The same of the buckets of a plan that is gone.
  void count_finished_buckets(std::uint64_t buckets);
  /// Named operations that have finished. Late by a moment for one that finishes while a plan goes.
  std::uint64_t operations_finished() const;

  /// A phase or a pause of the program that has begun, with the one around it.
  struct Stretch {
    NameId name = 0, outer = 0;
    std::int64_t since = 0, outer_since = 0;
  };
  enum class StretchKind { kPhase, kPause };
  Stretch begin(StretchKind kind, std::string_view text);
  /// Ends it: the one around it is the current one again.
  void end(StretchKind kind, const Stretch& stretch);

  /// The rank gives up. The first call counts; what is open stays open for the reader. If the
  /// job's abort signal was raised before, its text is recorded in place of `text`, as
  /// FlightState::kAborted: a rank that fails itself records that before it raises the signal.
  void fail(std::string_view text) noexcept;
  /// The rank ends for `text`, which is about other ranks: FlightState::kAborted.
  void give_up(std::string_view text) noexcept;
  /// An operation ended with an error, which the program may or may not survive.
  void note_error(std::string_view text);
  /// The last of them; empty: none.
  std::string last_error() const;
  /// The rank leaves in good order.
  void end() noexcept;
  bool is_running() const { return look_at(layout_.header->status.state) == FlightState::kRunning; }

  /// A sign of life, and the times of plans' progress. Called by the recorder's thread if there is
  /// a file; any other thread may call it too.
  void pulse();
  /// How many there have been. Plans of small buckets record one step after each.
  std::uint32_t pulses() const { return pulses_.load(std::memory_order_relaxed); }

  /// A copy of what the file holds, for parse_flight().
  std::vector<std::byte> image() const;

  const FlightLayout& layout() const { return layout_; }
  /// Guards the tables of plans, gradients and marks against registration; for PlanFlight.
  std::mutex& plans_mutex() const { return plans_mutex_; }

 private:
  void end_with(FlightState state, std::string_view text) noexcept;
  void run_pulses();

  const std::string path_;
  const AbortSignal* const abort_;
  FlightMemory memory_;
  FlightLayout layout_;
  NameTable names_;
  OpenTable open_;
  const std::uint16_t phase_kind_, pause_kind_;
  mutable std::mutex state_mutex_;  // guards phases, the state and last_error_
  std::string last_error_;
  mutable std::mutex plans_mutex_;
  struct PlanSight {
    std::uint64_t progress = 0, marks = 0;
    std::uint32_t slot_uses = 0;
  };
  std::vector<PlanSight> sights_;  // by plans_mutex_: what pulse() saw last
  std::atomic<std::uint32_t> pulses_{0};
  std::atomic<std::uint64_t> buckets_{0};  // among the finished operations

  std::mutex sleep_mutex_;  // guards should_stop_
  std::condition_variable wake_;
  bool should_stop_ = false;
  std::jthread thread_;
};

}  // namespace horo::observe
