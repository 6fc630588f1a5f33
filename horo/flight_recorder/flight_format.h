#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The format of a flight recorder's file. A FlightHeader holds the offsets of the tables, which
/// follow it. The byte order is that of the writing machine. Times are nanoseconds of that
/// machine's CLOCK_MONOTONIC; 0 means "not yet" or "none". One process writes the file while others
/// may read it. The writer may be killed at any instruction. Therefore the first field of a record
/// or plan marks the entry as valid, and each name is complete before an entry refers to it.
namespace horo::observe {

inline constexpr char kFlightMagic[8] = {'h', 'o', 'r', 'o', 'f', 'l', 't', '\n'};
inline constexpr std::uint32_t kFlightVersion = 2;

/// An index into the table of names. 0 if there is no name or the table was full.
using NameId = std::uint32_t;

/// The thread that ran an operation.
inline constexpr std::uint16_t kProgramLane = 0;      ///< a thread of the program
inline constexpr std::uint16_t kCoordinatorLane = 1;  ///< the coordinator: named operations
/// kFirstPlanLane plus the slot of a plan: the thread of that plan.
inline constexpr std::uint16_t kFirstPlanLane = 2;

/// Kinds of records besides the operations of coordinator::Kind.
inline constexpr const char* kBucketKind = "bucket";
inline constexpr const char* kPhaseKind = "phase";
inline constexpr const char* kPauseKind = "pause";
inline constexpr const char* kWaitKind = "wait";
/// The kind of the open operation that a reader derives from a marked gradient.
inline constexpr const char* kGradientKind = "gradient";
/// The kind (as in coordinator::name_of) and the name of the operation by which a rank leaves the
/// job.
inline constexpr const char* kShutdownKind = "shutdown";
inline constexpr std::string_view kShutdownName = "horo.shutdown";
/// The kind of the operation in which a rank waits after join().
inline constexpr const char* kJoinKind = "join";
/// The kind and the name of the call that finalizes MPI. If horo initialised MPI, a rank makes this
/// call after its shutdown operation.
inline constexpr const char* kFinalizeKind = "finalize";
inline constexpr const char* kFinalizeName = "MPI_Finalize";
/// The kind of an open record for a running completion callback. The record has the name of the
/// callback's operation, but is not an operation itself.
inline constexpr const char* kCallbackKind = "callback";

inline constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;

/// One operation. The ring has the latest finished operations, and those finished buckets whose
/// times were recorded (see PlanFlight). The table of open operations has the unfinished named
/// operations and the running callbacks. FlightStatus::unlisted counts those that have no row. An
/// unfinished bucket has no record; see FlightPlanEntry::progress.
///
/// For a bucket, `submitted` is the time of its first gradient's mark, and `agreed` is the time of
/// its last gradient's mark. The ring also has records of phases, pauses and waits, which last from
/// `started` to `ended`. A wait is the program's wait for the thread of a plan and has the name of
/// the plan. In the table of open operations, `ended` is the time at which a failed rank abandoned
/// the operation.
struct FlightRecord {
  /// Starts at 1. The record is invalid if `sequence` is 0 or has the bit kBeingWritten.
  std::uint64_t sequence;
  NameId name;         ///< for a bucket: the name of its plan
  std::uint16_t kind;  ///< a NameId
  std::uint8_t op;     ///< ReduceOp
  std::uint8_t type;   ///< DataType
  std::uint16_t lane;
  std::uint16_t process_set;  ///< a NameId; 0 for all ranks
  std::uint32_t part;         ///< for a bucket: its index in the plan
  std::uint64_t bytes;
  std::int64_t submitted, agreed, started, ended;
};
static_assert(sizeof(FlightRecord) == 64);

/// The position of a name in the table of texts. The entries from 1 to FlightStatus::names_used are
/// valid.
struct FlightName {
  std::uint32_t offset, length;
};

/// The state of one GradientSync.
struct FlightPlanEntry {
  NameId name;              ///< 0 if the entry is free
  std::uint32_t slot_uses;  ///< number of plans that have used this slot
  std::uint32_t first;  ///< index of the plan's first entry in the tables of gradients and marks
  std::uint32_t gradients;  ///< number of the plan's entries in these tables; 0 if they were full
  std::uint32_t buckets;
  std::uint32_t lane;
  std::uint64_t bytes;
  std::uint64_t progress;  ///< FlightProgress::packed()
  /// The approximate time of the last change of `progress` or of a mark; see kPulseInterval.
  std::int64_t progress_at;
  std::int64_t step_at;       ///< approximate end of the last step; 0 if none has ended
  NameId process_set;         ///< 0 for all ranks
  std::uint32_t is_given_up;  ///< 1 if the plan's exchange has ended with an error
};
static_assert(sizeof(FlightPlanEntry) == 64);

/// The progress of a plan. The file stores it in one word of 64 bits, so that a reader never sees a
/// partial update.
struct FlightProgress {
  std::uint64_t step = 0;  ///< complete steps
  /// The bucket that is exchanged now or next. After the last bucket of the step, this equals the
  /// number of buckets.
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
/// The low 32 bits of the number of the step in which a gradient was last marked. The first step
/// has the number 1.
using FlightMark = std::uint32_t;

/// The offset of a table in the file, and the number of its entries. For the table of texts,
/// `count` is a number of bytes.
struct FlightTable {
  std::uint32_t offset, count;
};

/// The part of the header that does not change after the recorder is constructed.
/// FlightHeader::checksum covers it.
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
  std::uint64_t machine;         ///< the scope in which `pid` is unique; see machine_id()
  std::int64_t monotonic, wall;  ///< CLOCK_MONOTONIC and CLOCK_REALTIME, read at the same time
  std::int64_t clock_offset;     ///< this host's wall clock plus this gives rank 0's wall clock
  char host[64];
};

/// kAborted: the rank failed after the abort signal was raised, or called
/// FlightRecorder::give_up(). In this state, `failure` is the text of the abort signal or of
/// give_up().
enum class FlightState : std::uint32_t { kRunning, kEnded, kFailed, kAborted };

/// The part of the header that changes.
struct FlightStatus {
  std::uint64_t records;   ///< number of records written to the ring, or being written
  std::uint64_t finished;  ///< number of finished operations, without the buckets of existing plans
  std::uint32_t names_used, texts_used;
  std::uint32_t names_lost;  ///< number of lookups of new names that did not fit into the tables
  /// The number of open operations that have no row, because the table of open operations or the
  /// table of names was full.
  std::uint32_t unlisted;
  std::int64_t pulse;  ///< time of the last call of FlightRecorder::pulse()
  NameId phase, pause;
  std::int64_t phase_since, pause_since;
  FlightState state;
  std::uint32_t signal;  ///< the recorded signal, whose handler may still be running, or 0
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
/// process runs must read this field again after the copy. Otherwise a ring slot that was
/// overwritten during the copy might be accepted with an old sequence and newer fields. With the
/// new value of this field, the old sequence is not valid.
inline constexpr std::size_t kRecordsAt =
    offsetof(FlightHeader, status) + offsetof(FlightStatus, records);

}  // namespace horo::observe
