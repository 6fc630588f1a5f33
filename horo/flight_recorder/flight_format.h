#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The format of a flight recorder's file. The file begins with a FlightHeader, which holds the
/// offsets of the tables. The tables follow the header. The byte order is that of the writing
/// machine. Unless a comment states otherwise, times are nanoseconds of that machine's
/// CLOCK_MONOTONIC, and 0 means "not yet" or "none". One process writes the file while others may
/// read it. The writer may be killed at any instruction. Therefore the first field of a
/// FlightRecord or FlightPlanEntry shows whether the entry is valid, and each name is complete
/// before an entry refers to it.
namespace horo::observe {

inline constexpr char kFlightMagic[8] = {'h', 'o', 'r', 'o', 'f', 'l', 't', '\n'};
inline constexpr std::uint32_t kFlightVersion = 2;

/// An index into the table of names. 0 if there is no name, or if the table of names or of texts
/// had no room for the name.
using NameId = std::uint32_t;

/// Values of FlightRecord::lane: the thread that did the recorded work. Named operations and
/// callbacks have kCoordinatorLane even if another thread ran them.
inline constexpr std::uint16_t kProgramLane = 0;      ///< a thread of the program
inline constexpr std::uint16_t kCoordinatorLane = 1;  ///< named operations and callbacks
/// kFirstPlanLane plus the index of a plan's FlightPlanEntry: the thread of that plan. A plan
/// without an entry uses kFirstPlanLane too.
inline constexpr std::uint16_t kFirstPlanLane = 2;

/// Kinds of records that are not in coordinator::Kind.
inline constexpr const char* kBucketKind = "bucket";
inline constexpr const char* kPhaseKind = "phase";
inline constexpr const char* kPauseKind = "pause";
inline constexpr const char* kWaitKind = "wait";
/// The kind of an OpenOperation that a reader of the tables derives from a marked gradient. No
/// record has this kind.
inline constexpr const char* kGradientKind = "gradient";
/// The kind (see coordinator::name_of()) and the name of the operation by which a rank leaves the
/// job or a process set.
inline constexpr const char* kShutdownKind = "shutdown";
inline constexpr std::string_view kShutdownName = "horo.shutdown";
/// The kind of the operation that Context::join() submits.
inline constexpr const char* kJoinKind = "join";
/// The kind and the name of the record of horo's call of MPI_Finalize. The shutdown operation of
/// the rank has finished before this call.
inline constexpr const char* kFinalizeKind = "finalize";
inline constexpr const char* kFinalizeName = "MPI_Finalize";
/// The kinds of Context::send() and recv(). Their records have the two ranks as their process set.
inline constexpr const char* kSendKind = "send";
inline constexpr const char* kReceiveKind = "recv";
/// The kind of the open record that exists while a completion callback runs. The record has the
/// name of the operation that the callback belongs to.
inline constexpr const char* kCallbackKind = "callback";

/// A bit of FlightRecord::sequence that is set while a thread writes to the ring slot.
inline constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;

/// An operation, bucket, phase, pause, wait or running callback.
///
/// The ring has the latest records of finished operations (see OpenFlight::finish()), of phases,
/// pauses and waits, and of the buckets whose times were measured (see PlanFlight). The table of
/// open operations has the open records (see OpenFlight): submitted operations and running
/// callbacks. FlightStatus::unlisted counts the open records that are not in the table. A bucket
/// that is being exchanged has no record; see FlightPlanEntry::progress.
///
/// For a named operation, `agreed` is the time at which its negotiation ended on this rank. For a
/// bucket, `submitted` and `agreed` are the times at which its first and its last gradient were
/// marked. If such a time was not measured, the field has the value of `started`. A phase, pause or
/// wait lasts from `started` to `ended`. A wait is the program's wait for the thread of a plan, and
/// has the name of the plan. In the table of open operations, `ended` is 0, or the time at which an
/// operation was abandoned (see OpenFlight::~OpenFlight()).
struct FlightRecord {
  /// Starts at 1. The record is invalid if `sequence` is 0 or has the bit kBeingWritten.
  std::uint64_t sequence;
  NameId name;                ///< for a bucket: the name of its plan
  std::uint16_t kind;         ///< a NameId
  std::uint8_t op;            ///< ReduceOp
  std::uint8_t type;          ///< DataType
  std::uint16_t lane;         ///< see kProgramLane
  std::uint16_t process_set;  ///< a NameId; 0 for all ranks, or if the set's name had no room
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

/// The state of one plan.
struct FlightPlanEntry {
  NameId name;              ///< 0 if the entry is free
  std::uint32_t slot_uses;  ///< number of plans that were registered in this entry
  std::uint32_t first;  ///< index of the plan's first entry in the tables of gradients and marks
  std::uint32_t gradients;  ///< number of the plan's entries in these tables; 0 if they were full
  std::uint32_t buckets;
  std::uint32_t lane;
  std::uint64_t bytes;     ///< sum over the buckets
  std::uint64_t progress;  ///< FlightProgress::packed()
  /// The time of the latest FlightRecorder::pulse() that found a change of `progress` or of a mark.
  /// Before such a pulse, the time of registration.
  std::int64_t progress_at;
  std::int64_t step_at;       ///< time of the latest pulse() that found more complete steps, or 0
  NameId process_set;         ///< 0 for all ranks
  std::uint32_t is_given_up;  ///< 1 if the plan's exchange has ended with an error
};
static_assert(sizeof(FlightPlanEntry) == 64);

/// The progress of a plan. The file stores a FlightProgress in one word of 64 bits, so that a
/// reader never sees a partial update.
struct FlightProgress {
  std::uint64_t step = 0;  ///< number of complete steps since the plan was registered
  /// The bucket that is exchanged now or next. After the last bucket of the step, `bucket` equals
  /// the number of buckets.
  std::uint32_t bucket = 0;
  /// Whether the exchange of `bucket` has started or, after the last bucket, the hooks that end the
  /// step have started (see PlanFlight::conclude()).
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
/// has the number 1. 0 if the gradient was never marked.
using FlightMark = std::uint32_t;

/// The offset of a table in the file in bytes, and the number of its entries. For the table of
/// texts, `count` is a number of bytes.
struct FlightTable {
  std::uint32_t offset, count;
};

/// The part of the header that does not change after the recorder is constructed.
/// FlightHeader::checksum is computed from this part.
struct FlightIdentity {
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  FlightTable names, texts, open, plans, gradients, marks, ring;
  std::uint64_t job;  ///< see FlightJob::id
  std::int32_t rank, size, node, node_count;
  std::int64_t pid;
  /// The start time from /proc/PID/stat, or 0 if unknown. Distinguishes the writer from a later
  /// process with the same pid.
  std::uint64_t process_start;
  std::uint64_t machine;         ///< the scope in which `pid` is unique; see machine_id()
  std::int64_t monotonic, wall;  ///< CLOCK_MONOTONIC and, read right after it, CLOCK_REALTIME
  std::int64_t clock_offset;     ///< this host's wall clock plus this gives rank 0's wall clock
  char host[64];
};

/// The state of a rank. kRunning: the rank is in the job and has not failed. kEnded: the rank left
/// the job without failure. kFailed: the rank failed, and the job's abort signal was not raised
/// before. kAborted: the rank failed after the abort signal was raised, or
/// FlightRecorder::give_up() was called. In the state kFailed, FlightStatus::failure is the text of
/// the failure. In the state kAborted, it is the text of the abort signal or of give_up().
enum class FlightState : std::uint32_t { kRunning, kEnded, kFailed, kAborted };

/// The part of the header that changes.
struct FlightStatus {
  std::uint64_t records;  ///< number of records added to the ring, including dropped ones
  /// The number of finished operations plus the number of buckets that destroyed plans have
  /// exchanged.
  std::uint64_t finished;
  std::uint32_t names_used, texts_used;
  std::uint32_t names_lost;  ///< number of lookups of new names that did not fit into the tables
  /// The number of open operations and running callbacks without a row in the table of open
  /// operations, because a table had no room.
  std::uint32_t unlisted;
  std::int64_t pulse;   ///< time of the last call of FlightRecorder::pulse()
  NameId phase, pause;  ///< the current ones, or 0
  std::int64_t phase_since, pause_since;
  FlightState state;
  std::uint32_t signal;  ///< the recorded signal (see CrashRecorder), or 0
  std::int64_t state_since, signal_at;
  char failure[1024];
};

struct FlightHeader {
  char magic[8];
  std::uint64_t checksum;  ///< horo::Hash of the bytes of `identity`
  FlightIdentity identity;
  FlightStatus status;
};

/// The offset of FlightStatus::records in the file. A reader that copies the tables while the
/// process runs must read this field again after the copy. A ring slot that is overwritten during
/// the copy may have an old sequence and newer fields in the copy. With the new value of `records`,
/// parse_flight() expects a higher sequence in that slot and skips the slot.
inline constexpr std::size_t kRecordsAt =
    offsetof(FlightHeader, status) + offsetof(FlightStatus, records);

}  // namespace horo::observe
