#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The format of a flight recorder's file: a FlightHeader, followed by the tables whose offsets it
/// holds. Byte order is that of the writing machine. Times are nanoseconds of that host's
/// CLOCK_MONOTONIC; 0 means "not yet" or "none". One process writes the file while others may read
/// it. The writer may be killed at any instruction. Therefore the first field of a record or plan
/// marks the entry as valid, and each name is complete before it is used.
namespace horo::observe {

inline constexpr char kFlightMagic[8] = {'h', 'o', 'r', 'o', 'f', 'l', 't', '\n'};
inline constexpr std::uint32_t kFlightVersion = 2;

/// An index into the table of names. 0: no name, or the table was full.
using NameId = std::uint32_t;

/// The thread that ran an operation.
inline constexpr std::uint16_t kProgramLane = 0;      ///< a thread of the program
inline constexpr std::uint16_t kCoordinatorLane = 1;  ///< the coordinator: named operations
inline constexpr std::uint16_t kFirstPlanLane = 2;  ///< plus the plan's slot: the plan's own thread

/// Kinds of records besides the operations of coordinator::Kind.
inline constexpr const char* kBucketKind = "bucket";
inline constexpr const char* kPhaseKind = "phase";
inline constexpr const char* kPauseKind = "pause";
inline constexpr const char* kWaitKind = "wait";
/// The kind of the open operation that a reader derives from a marked gradient.
inline constexpr const char* kGradientKind = "gradient";
/// The kind (as in coordinator::name_of) and the name of a rank's last operation.
inline constexpr const char* kShutdownKind = "shutdown";
inline constexpr std::string_view kShutdownName = "horo.shutdown";
/// The kind of the operation in which a rank waits after join().
inline constexpr const char* kJoinKind = "join";
/// The kind and the name of the call that finalizes MPI. It is a rank's last operation if horo
/// initialised MPI.
inline constexpr const char* kFinalizeKind = "finalize";
inline constexpr const char* kFinalizeName = "MPI_Finalize";
/// The kind of an open record for a running completion callback. The record has the name of the
/// callback's operation, but is not an operation itself.
inline constexpr const char* kCallbackKind = "callback";

inline constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;

/// One operation. Finished operations are in the ring, unfinished ones in the table of open
/// operations. For a bucket, `submitted` is the time of its first gradient's mark, and `agreed` is
/// the time of its last gradient's mark. A phase, a pause, or a wait of the program for a plan's
/// thread (named after the plan) lasts from `started` to `ended`. In the table of open operations,
/// `ended` is the time at which a failed rank abandoned the operation.
struct FlightRecord {
  /// Starts at 1. The record is invalid if this is 0 or has the bit kBeingWritten.
  std::uint64_t sequence;
  NameId name;         ///< for a bucket: the name of its plan
  std::uint16_t kind;  ///< a NameId
  std::uint8_t op;     ///< ReduceOp
  std::uint8_t type;   ///< DataType
  std::uint16_t lane;
  std::uint16_t process_set;  ///< a NameId; 0: all ranks
  std::uint32_t part;         ///< for a bucket: its index in the plan
  std::uint64_t bytes;
  std::int64_t submitted, agreed, started, ended;
};
static_assert(sizeof(FlightRecord) == 64);

/// The position of a name in the table of texts. Entries up to FlightStatus::names_used are valid.
struct FlightName {
  std::uint32_t offset, length;
};

/// The state of one GradientSync.
struct FlightPlanEntry {
  NameId name;              ///< 0: free
  std::uint32_t slot_uses;  ///< number of plans that have used this slot
  std::uint32_t first;      ///< index of its first entry in the tables of gradients and marks
  std::uint32_t gradients;  ///< number of its entries there; 0 if the tables were full
  std::uint32_t buckets;
  std::uint32_t lane;
  std::uint64_t bytes;
  std::uint64_t progress;     ///< FlightProgress::packed()
  std::int64_t progress_at;   ///< approximate time of the last change of `progress` or of a mark,
                              ///< see kPulseInterval
  std::int64_t step_at;       ///< approximate end of the last step; 0: no step has ended
  NameId process_set;         ///< 0: all ranks
  std::uint32_t is_given_up;  ///< 1: its exchange has ended with an error
};
static_assert(sizeof(FlightPlanEntry) == 64);

/// The progress of a plan. It is packed into 64 bits, so that a reader never sees a partial update.
struct FlightProgress {
  std::uint64_t step = 0;  ///< complete steps
  /// The bucket that is exchanged now or next; the number of buckets at the end of the step.
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
/// The step (from 1, low 32 bits) in which a gradient was last marked.
using FlightMark = std::uint32_t;

/// A table's offset in the file, and its number of entries (for texts: of bytes).
struct FlightTable {
  std::uint32_t offset, count;
};

/// The part of the header that does not change after the start. FlightHeader::checksum covers it.
struct FlightIdentity {
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  FlightTable names, texts, open, plans, gradients, marks, ring;
  std::uint64_t job;  ///< the same on all ranks of a job
  std::int32_t rank, size, node, node_count;
  std::int64_t pid;
  /// From /proc/PID/stat; distinguishes a later process with the same pid.
  std::uint64_t process_start;
  std::uint64_t machine;         ///< the scope in which `pid` is unique: see machine_id()
  std::int64_t monotonic, wall;  ///< CLOCK_MONOTONIC and CLOCK_REALTIME, read at the same time
  std::int64_t clock_offset;     ///< this host's wall clock plus this offset gives rank 0's
  char host[64];
};

/// kAborted: the abort signal was raised before the rank had a failure of its own. In this state,
/// `failure` is the text of the abort signal.
enum class FlightState : std::uint32_t { kRunning, kEnded, kFailed, kAborted };

/// The part of the header that changes.
struct FlightStatus {
  std::uint64_t records;   ///< number of records written to the ring, or being written
  std::uint64_t finished;  ///< finished operations, without those of existing plans
  std::uint32_t names_used, texts_used;
  std::uint32_t names_lost;  ///< number of lookups of new names that did not fit into the tables
  /// Open operations without a row: the table of open operations or the table of names was full.
  std::uint32_t unlisted;
  std::int64_t pulse;  ///< time of the last sign of life
  NameId phase, pause;
  std::int64_t phase_since, pause_since;
  FlightState state;
  std::uint32_t signal;  ///< the recorded signal, whose handler may still run; 0: none
  std::int64_t state_since, signal_at;
  char failure[1024];
};

struct FlightHeader {
  char magic[8];
  std::uint64_t checksum;  ///< Hash of the bytes of `identity`
  FlightIdentity identity;
  FlightStatus status;
};

/// The offset of FlightStatus::records in the file. A reader that copies the tables while the
/// process runs must read this field again after the copy. Ring slots that were overwritten during
/// the copy then belong to records that are too old to be valid.
inline constexpr std::size_t kRecordsAt =
    offsetof(FlightHeader, status) + offsetof(FlightStatus, records);

}  // namespace horo::observe
