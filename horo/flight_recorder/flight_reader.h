#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "horo/flight_recorder/flight_format.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// One record of the ring or of the table of open operations: an operation, bucket, phase, pause,
/// wait or callback. Times are by rank 0's wall clock; 0 means "not yet" or "none".
struct FlightEvent {
  /// For a record of the ring: its position in the order in which records were added to the ring.
  /// For an open record: its position in the order in which records were opened. Both orders start
  /// at 1.
  std::uint64_t sequence = 0;
  std::string name;  ///< for a bucket: "PLAN/bucket K"; "(unnamed)" if the record has no name
  std::string kind;  ///< a name of coordinator::name_of(), or a kind in flight_format.h
  std::string process_set;        ///< empty for all ranks
  std::uint8_t op = 0, type = 0;  ///< ReduceOp, DataType
  std::uint16_t lane = 0;         ///< see kProgramLane
  std::uint64_t bytes = 0;
  WallTime submitted = 0, agreed = 0, started = 0, ended = 0;
  WallTime given_up = 0;  ///< when this open operation was abandoned, or 0
};

/// The state of one plan; see FlightPlanEntry.
struct FlightPlanState {
  std::string name;
  std::string process_set;  ///< empty for all ranks
  /// The plan's lane, and the number of plans that have used the lane. The two numbers together
  /// identify a plan of the rank.
  std::uint32_t lane = 0, lane_uses = 0;
  FlightProgress progress;
  bool is_given_up = false;  ///< the plan's exchange has ended with an error
  std::uint32_t buckets = 0;
  std::uint64_t bytes = 0;
  WallTime progress_at = 0, step_at = 0;
  struct Gradient {
    std::string name;
    std::uint32_t bucket = 0;
    bool is_marked = false;  ///< in the current or a later step
  };
  std::vector<Gradient> gradients;
};

/// The contents of a recorder's memory or file. All members of type WallTime are times of rank 0's
/// wall clock.
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
  int signal = 0;  ///< the recorded signal (see CrashRecorder), or 0
  WallTime signal_at = 0;
  std::string phase, pause;
  WallTime phase_since = 0, pause_since = 0;
  std::uint64_t finished = 0;  ///< number of finished operations and exchanged buckets
  /// The number of ring records that were skipped because they were incomplete, were dropped by
  /// write_latest_record(), or were overwritten during the copy.
  std::uint64_t torn = 0;
  std::uint32_t names_lost = 0;
  std::uint32_t unlisted = 0;                ///< see FlightStatus::unlisted
  std::vector<FlightEvent> finished_events;  ///< the latest records of the ring, oldest first
  std::vector<FlightEvent> open_events;      ///< oldest first
  std::vector<FlightPlanState> plans;
};

/// Parses the bytes of a file or of FlightRecorder::image(). Reads at most the latest
/// `most_finished` records of the ring. Skips entries that a killed process left incomplete. Throws
/// Error with the reason if the bytes are not a flight recorder's file, have another format
/// version, are truncated, or have a damaged header.
FlightLog parse_flight(std::span<const std::byte> bytes,
                       std::uint64_t most_finished = std::numeric_limits<std::uint64_t>::max());
/// Reads and parses a file. Throws Error if the file cannot be read or parsed. The text of the
/// Error begins with the path.
FlightLog read_flight(const std::string& path);

/// Applies the launcher's report that it received `signal` at time `at` as a request to stop the
/// job. The launcher kills ranks that do not exit in time, and such a rank may not have recorded
/// the signal. This function changes `log` as if the rank had recorded the signal, if the process
/// has ended, the log shows no cause of the end, and the last pulse is close to `at`.
void apply_stop_request(FlightLog& log, int signal, WallTime at);

/// Whether the process that writes this log is alive. A process that cannot be looked up, such as a
/// process on another host, counts as alive if its last pulse is less than two seconds old.
bool is_writer_alive(const FlightLog& log);

/// Whether the log has a recorded signal for which is_termination_signal() is true. Launchers send
/// such signals to the remaining ranks of a job.
bool was_terminated_by_signal(const FlightLog& log);

/// Returns the state of the rank as input of diagnose(). RankSnapshot::taken is the time of the
/// recorded failure or end, or else the time of the recorded signal. Without such a record, `taken`
/// is the current time if the process is alive (see is_writer_alive()), and otherwise the time of
/// the last pulse. The liveness is kDead if the process is not alive and has recorded no failure,
/// end or signal.
RankSnapshot snapshot_of(const FlightLog& log);

/// Returns the state of a rank of the calling process at `now`, by the log's clock. The liveness is
/// kRunning, or kEnded if the rank has no plans and waits in its shutdown. Omits abandoned
/// operations and plans whose exchange has failed. Of each plan, lists only the marked gradients of
/// the current and of the next bucket. An operation for the current bucket represents gradients
/// that are not listed one by one. A marked gradient whose bucket is not exchanged yet does not
/// block the rank, so the submission time of that gradient is `now`.
RankSnapshot live_snapshot_of(const FlightLog& log, WallTime now);

}  // namespace horo::observe
