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
#include "horo/flight_recorder/flight_memory.h"
#include "horo/flight_recorder/open_table.h"

namespace horo::observe {

/// Describes the rank and the job of a recorder, and the recorder's file.
struct FlightJob {
  /// Identifies the job. All ranks of a job that have completed horo::init() have the same number.
  std::uint64_t id = 0;
  int rank = 0, size = 1, node = 0, node_count = 1;
  std::string host = "localhost";
  /// In ns. This host's wall clock plus this offset gives rank 0's wall clock.
  std::int64_t clock_offset = 0;
  std::string path;  ///< the path of the file; empty for anonymous memory
  /// The job's abort signal, or null. fail() uses the signal to distinguish a failure of this rank
  /// from a consequence of another rank's failure. Must be valid until the last call of fail().
  const AbortSignal* abort = nullptr;
};

/// Returns the time of CLOCK_MONOTONIC in ns. All records use this clock.
inline std::int64_t flight_clock() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// The interval between two calls of pulse() by the thread of a recorder.
inline constexpr std::chrono::milliseconds kPulseInterval{250};

/// Records the recent and the current activity of a rank: a ring of the latest finished operations,
/// a table of open operations, the state of up to kPlanEntries plans, the current phase and pause,
/// and whether and why the rank failed. With a path, the records are in a mapped file, which
/// remains if the process is killed. Without a path, the records are in anonymous memory. image()
/// copies the records.
///
/// All members are thread-safe. Recording an operation takes no lock and makes no system call,
/// except if its name is new. An operation takes one record of 64 bytes in the table of open
/// operations and later one in the ring. A recorder with a file has a thread that calls pulse()
/// every kPulseInterval.
///
/// Lock order: plans_mutex() before NameTable::mutex(). image() locks both and state_mutex_ with
/// one std::scoped_lock, which avoids deadlock.
class FlightRecorder {
 public:
  /// Throws Error with the path and the reason if the file cannot be created.
  explicit FlightRecorder(const FlightJob& job);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  const std::string& path() const { return path_; }
  NameId name(std::string_view text) { return names_.id_of(text); }

  /// Records that an operation was submitted or that a callback runs. The returned object
  /// represents the open record. `submitted.sequence` is ignored.
  OpenFlight open(const FlightRecord& submitted) { return open_.add(submitted, *this); }
  /// Frees `row` of the table of open operations. If `row` is OpenTable::kNoRow, decrements
  /// FlightStatus::unlisted. Called by OpenFlight.
  void close(std::uint32_t row) { open_.free(row); }
  /// Appends the record of a finished operation, bucket, phase, pause or wait to the ring.
  void add(const FlightRecord& finished);
  /// Adds `operations` to FlightStatus::finished.
  void count_finished(std::uint64_t operations);
  /// Adds the buckets that a plan has exchanged to FlightStatus::finished. Called when the plan is
  /// destroyed.
  void count_finished_buckets(std::uint64_t buckets);
  /// The number of finished operations without buckets. The result may be too low while a plan is
  /// being destroyed.
  std::uint64_t operations_finished() const;

  /// A phase or pause of the program, and the phase or pause that encloses it.
  struct Span {
    NameId name = 0, outer = 0;
    std::int64_t since = 0, outer_since = 0;
  };
  enum class SpanKind { kPhase, kPause };
  /// Starts a phase or pause, which becomes the current one of its kind.
  Span begin(SpanKind kind, std::string_view text);
  /// Ends `span` and makes the enclosing phase or pause the current one again. Spans of one kind
  /// must end in the reverse order of their starts.
  void end(SpanKind kind, const Span& span);

  /// Records that the rank failed. Only the first call of fail(), give_up() or end() has an effect.
  /// Operations that are abandoned afterwards stay in the table of open operations. If the job's
  /// abort signal was raised before, records FlightState::kAborted with the text of the abort
  /// signal instead of `text`. Therefore a rank that aborts the job because of its own failure must
  /// call this function before it raises the signal.
  void fail(std::string_view text) noexcept;
  /// Records FlightState::kAborted with `text`. Used by a rank that ends although it has not failed
  /// itself, because it has waited too long for other ranks in horo::init().
  void give_up(std::string_view text) noexcept;
  /// Stores the error of an operation for last_error(). The program may handle the error and
  /// continue.
  void note_error(std::string_view text);
  /// The text of the last call of note_error(). Empty if there was none.
  std::string last_error() const;
  /// Records that the rank left the job without failure.
  void end() noexcept;
  bool is_running() const {
    return load_relaxed(layout_.header->status.state) == FlightState::kRunning;
  }

  /// Stores the current time in FlightStatus::pulse, and in the entry of each plan that has made
  /// progress since the last call. Also clears a survived fault; see clear_survived_fault().
  void pulse();
  /// The number of pulses so far. A change makes PlanFlight measure the small buckets of the next
  /// step.
  std::uint32_t pulses() const { return pulses_.load(std::memory_order_relaxed); }

  /// Returns a copy of the recorder's memory for parse_flight(), which skips records that were
  /// overwritten or freed during the copy.
  std::vector<std::byte> image() const;

  const FlightLayout& layout() const { return layout_; }
  /// Guards registration in the tables of plans, gradients and marks. Used by PlanFlight.
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
  mutable std::mutex state_mutex_;  // guards phase, pause, state and last_error_
  std::string last_error_;
  mutable std::mutex plans_mutex_;
  struct PlanObservation {
    std::uint64_t progress = 0, marks = 0;
    std::uint32_t slot_uses = 0;
  };
  // The state of each plan at the last pulse. Guarded by plans_mutex_.
  std::vector<PlanObservation> observations_;
  std::atomic<std::uint32_t> pulses_{0};
  std::atomic<std::uint64_t> buckets_{0};  // number of buckets in FlightStatus::finished

  std::mutex sleep_mutex_;  // guards should_stop_
  std::condition_variable wake_;
  bool should_stop_ = false;
  std::jthread thread_;
};

}  // namespace horo::observe
