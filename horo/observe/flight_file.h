#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The format of a flight recorder's file: FlightHeader, then the tables that it places. All in the
/// byte order of the machine that wrote it; times are nanoseconds of that host's CLOCK_MONOTONIC,
/// 0 for "not (yet)". One process writes while others may read, and it may be killed at any
/// instruction: a table entry counts only if its first field says so.
namespace horo::observe {

inline constexpr char kFlightMagic[8] = {'h', 'o', 'r', 'o', 'f', 'l', 't', '\n'};
inline constexpr std::uint32_t kFlightVersion = 2;

/// A place in the table of names. 0: none, or the table was full.
using NameId = std::uint32_t;

/// Who ran an operation.
inline constexpr std::uint16_t kProgramLane = 0;      ///< a thread of the program
inline constexpr std::uint16_t kCoordinatorLane = 1;  ///< named operations
inline constexpr std::uint16_t kFirstPlanLane = 2;    ///< + the plan's slot: the plan's own thread

/// The kinds of records that are not operations of coordinator::Kind.
inline constexpr const char* kBucketKind = "bucket";
inline constexpr const char* kPhaseKind = "phase";
inline constexpr const char* kPauseKind = "pause";
inline constexpr const char* kWaitKind = "wait";
/// The kind of an open operation that a reader makes of a marked gradient.
inline constexpr const char* kGradientKind = "gradient";
/// The kind of a rank's last operation, as coordinator::name_of has it, and its name.
inline constexpr const char* kShutdownKind = "shutdown";
inline constexpr std::string_view kShutdownName = "horo.shutdown";
/// The same of what a rank without more data waits in.
inline constexpr const char* kJoinKind = "join";
/// The kind of the operation that ends MPI, and its name: a rank's last one where horo has
/// initialised MPI.
inline constexpr const char* kFinalizeKind = "finalize";
inline constexpr const char* kFinalizeName = "MPI_Finalize";
/// The kind of an open record that shows that a completion callback runs. It has the name of the
/// callback's operation, and is no operation itself.
inline constexpr const char* kCallbackKind = "callback";

inline constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;

/// One operation: finished in the ring, unfinished in the table of open operations. A bucket:
/// `submitted` is its first gradient's mark, `agreed` its last one's. A phase, a pause,
/// or a wait of the program for a plan's own thread, called like the plan: from `started` to
/// `ended`. In the table of open operations `ended` says when the rank, which has
/// failed, gave the operation up.
struct FlightRecord {
  std::uint64_t sequence;  ///< 1, 2, ... ; 0: free, or being written; so is one with kBeingWritten
  NameId name;             ///< a bucket's: its plan
  std::uint16_t kind;      ///< a NameId
  std::uint8_t op;         ///< ReduceOp
  std::uint8_t type;       ///< DataType
  std::uint16_t lane;
  std::uint16_t process_set;  ///< a NameId; 0: all ranks
  std::uint32_t part;         ///< a bucket's number in its plan
  std::uint64_t bytes;
  std::int64_t submitted, agreed, started, ended;
};
static_assert(sizeof(FlightRecord) == 64);

/// Where a name's text lies in the table of texts. Published by FlightStatus::names_used.
struct FlightName {
  std::uint32_t offset, length;
};

/// A GradientSync.
struct FlightPlanEntry {
  NameId name;              ///< 0: free
  std::uint32_t slot_uses;  ///< how many plans have had this slot
  std::uint32_t first;      ///< its first entry in the tables of gradients and marks
  std::uint32_t gradients;  ///< its entries there; 0: there was no room for them
  std::uint32_t buckets;
  std::uint32_t lane;
  std::uint64_t bytes;
  std::uint64_t progress;     ///< FlightProgress, packed
  std::int64_t progress_at;   ///< about when `progress` or a mark last changed, see kPulseInterval
  std::int64_t step_at;       ///< about when the last step ended; 0: none has
  NameId process_set;         ///< 0: all ranks
  std::uint32_t is_given_up;  ///< 1: its exchange has ended with an error
};
static_assert(sizeof(FlightPlanEntry) == 64);

/// How far a plan has come, in one word, so that a reader never sees half of a change.
struct FlightProgress {
  std::uint64_t step = 0;  ///< complete steps
  /// The next to be exchanged, or being exchanged; after the last: the end of the step.
  std::uint32_t bucket = 0;
  bool is_exchanging = false;

  static constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 23;
  constexpr std::uint64_t packed() const {
    return step << 24 | std::uint64_t{bucket} << 1 | (is_exchanging ? 1 : 0);
  }
  static constexpr FlightProgress unpack(std::uint64_t word) {
    return {word >> 24, static_cast<std::uint32_t>(word >> 1 & (kMostBuckets - 1)),
            (word & 1) != 0};
  }
};

struct FlightGradient {
  NameId name;
  std::uint32_t bucket;
};
/// The mark of a gradient: the low bits of the number (from 1) of the step it was last marked in.
using FlightMark = std::uint32_t;

/// A table's offset in the file and its number of entries (of bytes, for texts).
struct FlightTable {
  std::uint32_t offset, count;
};

/// What does not change after the start; FlightHeader::checksum covers it.
struct FlightIdentity {
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  FlightTable names, texts, open, plans, gradients, marks, ring;
  std::uint64_t job;  ///< the same on all ranks of a job
  std::int32_t rank, size, node, node_count;
  std::int64_t pid;
  std::uint64_t
      process_start;      ///< as /proc/PID/stat gives it, so that another process is no mistake
  std::uint64_t machine;  ///< where `pid` counts: see this_machine()
  std::int64_t monotonic, wall;  ///< CLOCK_MONOTONIC and CLOCK_REALTIME, read together
  std::int64_t clock_offset;     ///< to be added to this host's wall clock to get rank 0's
  char host[64];
};

/// kAborted: the rank gave up because the abort signal was raised before it had a failure of its
/// own; `failure` is the signal's text.
enum class FlightState : std::uint32_t { kRunning, kEnded, kFailed, kAborted };

/// What changes.
struct FlightStatus {
  std::uint64_t records;   ///< written to the ring so far, or being written
  std::uint64_t finished;  ///< operations, but for those of plans that exist
  std::uint32_t names_used, texts_used;
  std::uint32_t names_lost;  ///< how often a name found no room
  std::uint32_t
      unlisted;        ///< operations that are open now and found no room in the table of open ones
  std::int64_t pulse;  ///< the last sign of life
  NameId phase, pause;
  std::int64_t phase_since, pause_since;
  FlightState state;
  std::uint32_t signal;  ///< that ended the process; 0: none that it has seen
  std::int64_t state_since, signal_at;
  char failure[1024];
};

struct FlightHeader {
  char magic[8];
  std::uint64_t checksum;  ///< Hash of the bytes of `identity`
  FlightIdentity identity;
  FlightStatus status;
};

/// Where FlightStatus::records lies in the file. Whoever copies the tables while the process runs
/// reads it once more afterwards: the places of the ring that were written meanwhile are those of
/// records older than it allows.
inline constexpr std::size_t kRecordsAt =
    offsetof(FlightHeader, status) + offsetof(FlightStatus, records);

}  // namespace horo::observe
