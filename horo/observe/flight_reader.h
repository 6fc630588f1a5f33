#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/flight_file.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// One finished or open operation, phase or pause, as a flight recorder noted it. Times are rank
/// 0's wall clock; 0: not (yet).
struct FlightEvent {
  std::uint64_t sequence = 0;  ///< counts by 1 in the order of ending (of submitting, if open)
  std::string name;            ///< a bucket's: "PLAN/bucket K"
  std::string kind;            ///< as coordinator::name_of says, or "bucket", "phase", "pause"
  std::string process_set;
  std::uint8_t op = 0, type = 0;  ///< ReduceOp, DataType
  std::uint16_t lane = 0;         ///< see flight_file.h
  std::uint64_t bytes = 0;
  WallTime submitted = 0, agreed = 0, started = 0, ended = 0;
  WallTime given_up = 0;  ///< an open one's: the rank, which has failed, is not in it any more
};

struct FlightPlanState {
  std::string name;
  std::string process_set;  ///< empty: all ranks
  /// The plan's lane, and how many plans have had it: no other plan of the rank has both.
  std::uint32_t lane = 0, lane_uses = 0;
  FlightProgress progress;
  bool is_given_up = false;  ///< its exchange has ended with an error
  std::uint32_t buckets = 0;
  std::uint64_t bytes = 0;
  WallTime progress_at = 0, step_at = 0;
  struct Gradient {
    std::string name;
    std::uint32_t bucket = 0;
    bool is_marked = false;  ///< in the current step
  };
  std::vector<Gradient> gradients;
};

/// What a flight recorder's file says, times converted to rank 0's wall clock.
struct FlightLog {
  std::string path;
  std::uint64_t job = 0;
  int rank = 0, size = 1, node = 0, node_count = 1;
  std::string host;
  std::int64_t pid = 0;
  std::uint64_t process_start = 0, machine = 0;
  std::int64_t clock_offset = 0;
  WallTime begun = 0, pulse = 0;
  FlightState state = FlightState::kRunning;
  WallTime state_since = 0;
  std::string failure;
  int signal = 0;  ///< that ended the process; 0: none that it has seen
  WallTime signal_at = 0;
  std::string phase, pause;
  WallTime phase_since = 0, pause_since = 0;
  std::uint64_t finished = 0;  ///< operations, buckets among them
  std::uint64_t torn = 0;      ///< records that were being written
  std::uint32_t names_lost = 0;
  std::uint32_t unlisted = 0;  ///< operations that are open and found no room in the table
  std::vector<FlightEvent> finished_events;  ///< the latest, oldest first
  std::vector<FlightEvent> open_events;      ///< oldest first
  std::vector<FlightPlanState> plans;
};

/// Reads the bytes of a file, or FlightRecorder::image(). Throws Error that says what is wrong: not
/// a flight recorder's file, of another version, cut off, or damaged. Entries that a killed process
/// left half written are skipped. Of the finished operations the latest `most_finished` are looked
/// at.
FlightLog parse_flight(std::span<const std::byte> bytes,
                       std::uint64_t most_finished = std::numeric_limits<std::uint64_t>::max());
/// The same for a file; the error begins with its path.
FlightLog read_flight(const std::string& path);

/// Adds what the launcher knows: at `at` it was told by `signal` to stop the job. It kills ranks
/// that did not leave word of that quickly enough; who lived until then is taken to have left it.
void note_stop_order(FlightLog& log, int signal, WallTime at);

/// Whether the process that writes it still lives, as far as can be seen from this machine.
bool is_writer_alive(const FlightLog& log);

/// Whether the process was ended by a signal such as SIGTERM, which launchers send to the ranks
/// that are left.
bool was_ended_from_outside(const FlightLog& log);

/// The picture of a rank that diagnose() takes. A process that was ended by a signal such as
/// SIGTERM, which launchers send to the ranks that are left, is shown as it ran at that moment;
/// one that is gone without a word is dead.
RankSnapshot snapshot_of(const FlightLog& log);

/// The same of a process that looks at itself at `now`, by the clock of the log: it runs. What it
/// has given up is not open. Of a plan there are the gradients of the bucket that is exchanged and
/// of the next; one that is marked and not exchanged is not waited with, so that it is submitted
/// `now`.
RankSnapshot live_snapshot_of(const FlightLog& log, WallTime now);

}  // namespace horo::observe
