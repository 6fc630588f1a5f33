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

/// One finished or open record of a flight recorder: an operation, bucket, phase, pause, wait or
/// callback. Times are by rank 0's wall clock; 0 means "not yet" or "none".
struct FlightEvent {
  /// For finished events: the position in the order of ends. For open events: the position in the
  /// order of submission.
  std::uint64_t sequence = 0;
  std::string name;  ///< for a bucket: "PLAN/bucket K"
  std::string kind;  ///< one of coordinator::name_of(), or a kind of flight_format.h
  std::string process_set;
  std::uint8_t op = 0, type = 0;  ///< ReduceOp, DataType
  std::uint16_t lane = 0;         ///< see flight_format.h
  std::uint64_t bytes = 0;
  WallTime submitted = 0, agreed = 0, started = 0, ended = 0;
  WallTime given_up = 0;  ///< when a failed rank abandoned this open operation, or 0
};

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

/// The contents of a flight recorder's file, with all times converted to rank 0's wall clock.
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
  int signal = 0;  ///< the recorded signal, whose handler may still be running, or 0
  WallTime signal_at = 0;
  std::string phase, pause;
  WallTime phase_since = 0, pause_since = 0;
  std::uint64_t finished = 0;  ///< number of finished operations, including buckets
  std::uint64_t torn = 0;      ///< ring records that were incomplete, overwritten or dropped
  std::uint32_t names_lost = 0;
  std::uint32_t unlisted = 0;                ///< see FlightStatus::unlisted
  std::vector<FlightEvent> finished_events;  ///< the latest ones, oldest first
  std::vector<FlightEvent> open_events;      ///< oldest first
  std::vector<FlightPlanState> plans;
};

/// Parses the bytes of a file or of FlightRecorder::image(). Reads at most the latest
/// `most_finished` finished operations. Skips entries that a killed process left incomplete. Throws
/// Error with the reason if the bytes are not a flight recorder's file, have another version, or
/// are truncated or damaged.
FlightLog parse_flight(std::span<const std::byte> bytes,
                       std::uint64_t most_finished = std::numeric_limits<std::uint64_t>::max());
/// Reads and parses a file. The text of an Error begins with the path.
FlightLog read_flight(const std::string& path);

/// Applies the launcher's report that the launcher received `signal` at time `at` as a request to
/// stop the job. The launcher kills ranks that do not exit in time, and such a rank may not have
/// recorded the signal. The function changes the log as if the rank had recorded the signal, if the
/// process has ended, the log shows no cause of the end, and the last pulse is close to `at`.
void apply_stop_request(FlightLog& log, int signal, WallTime at);

/// Whether the process that writes this log is alive, as far as this machine can determine.
bool is_writer_alive(const FlightLog& log);

/// Whether the process was ended by a signal such as SIGTERM, which launchers send to the remaining
/// ranks of a job.
bool was_terminated_by_signal(const FlightLog& log);

/// The state of the rank, as input of diagnose(). The time of the snapshot is the time of the
/// recorded failure or end, or else of the recorded signal. After a signal such as SIGTERM, the
/// snapshot shows the liveness from before the signal. A process that ended without any of these
/// records is dead.
RankSnapshot snapshot_of(const FlightLog& log);

/// The state of the calling process's own rank at `now`, by the log's clock. The liveness is
/// kRunning, or kEnded if the rank has no plans and waits in shutdown. Abandoned operations are not
/// included. For each plan, only the marked gradients of the current and of the next bucket are
/// included. A marked gradient whose bucket is not exchanged yet does not block the rank, so the
/// submission time of that gradient is `now`.
RankSnapshot live_snapshot_of(const FlightLog& log, WallTime now);

}  // namespace horo::observe
