#include "horo/flight_recorder/flight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/base/text/printable.h"
#include "horo/flight_recorder/flight_memory.h"

namespace horo::observe {
namespace {

template <typename T>
T copy_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void require_inside(const FlightTable& table, std::size_t bytes) {
  if (table.offset > bytes || table.count > (bytes - table.offset) / sizeof(T))
    throw Error("damaged: a table extends beyond the file");
}

FlightHeader read_header(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof kFlightMagic ||
      std::memcmp(bytes.data(), kFlightMagic, sizeof kFlightMagic) != 0)
    throw Error("not a flight recorder file");
  if (bytes.size() < sizeof(FlightHeader)) throw Error("the header is truncated");
  const auto header = copy_at<FlightHeader>(bytes, 0);
  const FlightIdentity& identity = header.identity;
  if (identity.version != kFlightVersion)
    throw Error(fmt::format("has format version {}; this hororun reads version {}",
                            identity.version, kFlightVersion));
  if (Hash().add_bytes(&identity, sizeof identity).value() != header.checksum)
    throw Error("damaged: the checksum of the header is wrong");
  if (bytes.size() < identity.file_bytes)
    throw Error(fmt::format("truncated: {} of {} bytes", bytes.size(), identity.file_bytes));
  require_inside<FlightName>(identity.names, bytes.size());
  require_inside<char>(identity.texts, bytes.size());
  require_inside<FlightRecord>(identity.open, bytes.size());
  require_inside<FlightPlanEntry>(identity.plans, bytes.size());
  require_inside<FlightGradient>(identity.gradients, bytes.size());
  require_inside<FlightMark>(identity.marks, bytes.size());
  require_inside<FlightRecord>(identity.ring, bytes.size());
  return header;
}

// Parses the bytes of a file. The constructor throws Error unless the header is valid and all
// tables are inside the file. The tables may contain any bytes.
class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::uint64_t most_finished)
      : bytes_(bytes),
        most_finished_(most_finished),
        header_(read_header(bytes)),
        identity_(header_.identity) {}

  FlightLog parse() {
    FlightLog log;
    read_identity(log);
    read_status(log);
    read_ring(log);
    read_open(log);
    for (std::uint32_t i = 0; i < identity_.plans.count; ++i) read_plan(log, i);
    return log;
  }

 private:
  template <typename T>
  T entry(const FlightTable& table, std::size_t index) const {
    return copy_at<T>(bytes_, table.offset + index * sizeof(T));
  }
  template <std::size_t N>
  static std::string text(const char (&field)[N]) {
    return printable({field, strnlen(field, N)});
  }

  WallTime wall(std::int64_t monotonic) const {
    if (monotonic == 0) return 0;
    // Values of a damaged file may be arbitrary. Unsigned sums wrap, but signed overflow is
    // undefined.
    return static_cast<WallTime>(static_cast<std::uint64_t>(monotonic) -
                                 static_cast<std::uint64_t>(identity_.monotonic) +
                                 static_cast<std::uint64_t>(identity_.wall) +
                                 static_cast<std::uint64_t>(identity_.clock_offset));
  }

  std::string name(NameId id) const {
    if (id == 0) return {};
    if (id >= identity_.names.count) return "?";
    const auto entry_text = entry<FlightName>(identity_.names, id);
    if (entry_text.offset > identity_.texts.count ||
        entry_text.length > identity_.texts.count - entry_text.offset)
      return "?";
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + identity_.texts.offset;
    return printable({begin + entry_text.offset, entry_text.length});
  }

  void read_identity(FlightLog& log) const {
    log.job = identity_.job;
    log.rank = identity_.rank;
    log.size = identity_.size;
    log.node = identity_.node;
    log.node_count = identity_.node_count;
    log.host = text(identity_.host);
    log.pid = identity_.pid;
    log.process_start = identity_.process_start;
    log.machine = identity_.machine;
    log.clock_offset = identity_.clock_offset;
    log.begun = wall(identity_.monotonic);
  }

  void read_status(FlightLog& log) const {
    const FlightStatus& status = header_.status;
    log.pulse = wall(status.pulse);
    log.state = status.state <= FlightState::kAborted ? status.state : FlightState::kRunning;
    log.state_since = wall(status.state_since);
    log.failure = text(status.failure);
    log.signal = static_cast<int>(status.signal);
    log.signal_at = wall(status.signal_at);
    log.phase = name(status.phase);
    log.pause = name(status.pause);
    log.phase_since = log.phase.empty() ? 0 : wall(status.phase_since);
    log.pause_since = log.pause.empty() ? 0 : wall(status.pause_since);
    log.finished = status.finished;
    log.names_lost = status.names_lost;
    log.unlisted = status.unlisted;
  }

  FlightEvent event(const FlightRecord& record) const {
    FlightEvent event;
    event.sequence = record.sequence;
    event.kind = name(record.kind);
    event.name = record.name == 0 ? "(unnamed)" : name(record.name);
    if (event.kind == kBucketKind) event.name += fmt::format("/bucket {}", record.part);
    event.process_set = name(record.process_set);
    event.op = record.op;
    event.type = record.type;
    event.lane = record.lane;
    event.bytes = record.bytes;
    event.submitted = wall(record.submitted);
    event.agreed = wall(record.agreed);
    event.started = wall(record.started);
    event.ended = wall(record.ended);
    return event;
  }

  // Record N (from 1) is in slot (N - 1) % count. If the slot has another sequence, record N is
  // incomplete, was overwritten during the copy, or was dropped by write_latest_record().
  void read_ring(FlightLog& log) const {
    const std::uint64_t records = header_.status.records;
    const std::uint64_t count = identity_.ring.count;
    const std::uint64_t latest = std::min({records, count, most_finished_});
    for (std::uint64_t before = latest; before > 0; --before) {
      const std::uint64_t sequence = records - before + 1;
      const auto record = entry<FlightRecord>(identity_.ring, (sequence - 1) % count);
      if (record.sequence == sequence)
        log.finished_events.push_back(event(record));
      else
        ++log.torn;
    }
  }

  void read_open(FlightLog& log) const {
    for (std::uint32_t i = 0; i < identity_.open.count; ++i) {
      const auto record = entry<FlightRecord>(identity_.open, i);
      if (record.sequence == 0) continue;
      FlightEvent& open = log.open_events.emplace_back(event(record));
      open.given_up = std::exchange(open.ended, 0);
    }
    std::sort(log.open_events.begin(), log.open_events.end(),
              [](const FlightEvent& a, const FlightEvent& b) { return a.sequence < b.sequence; });
  }

  void read_plan(FlightLog& log, std::uint32_t index) const {
    const auto plan = entry<FlightPlanEntry>(identity_.plans, index);
    if (plan.name == 0) return;
    FlightPlanState state;
    state.name = name(plan.name);
    state.process_set = name(plan.process_set);
    state.lane = plan.lane;
    state.lane_uses = plan.slot_uses;
    state.is_given_up = plan.is_given_up != 0;
    state.progress = FlightProgress::unpack(plan.progress);
    state.buckets = plan.buckets;
    state.bytes = plan.bytes;
    state.progress_at = wall(plan.progress_at);
    state.step_at = wall(plan.step_at);
    const auto stamp = static_cast<FlightMark>(state.progress.step + 1);
    const std::uint32_t room = std::min(identity_.gradients.count, identity_.marks.count);
    if (plan.first <= room && plan.gradients <= room - plan.first)
      for (std::uint32_t i = plan.first; i < plan.first + plan.gradients; ++i) {
        const auto gradient = entry<FlightGradient>(identity_.gradients, i);
        // If the gradients are in device memory, marks may be ahead of the progress of the plan.
        const auto ahead = static_cast<std::int32_t>(entry<FlightMark>(identity_.marks, i) - stamp);
        state.gradients.push_back({name(gradient.name), gradient.bucket, ahead >= 0});
      }
    log.finished += state.progress.step * state.buckets + state.progress.bucket;
    log.plans.push_back(std::move(state));
  }

  std::span<const std::byte> bytes_;
  std::uint64_t most_finished_;
  FlightHeader header_;
  const FlightIdentity& identity_;
};

// Reads FlightStatus::records again (see kRecordsAt), and drops the open rows that changed while
// `bytes` were read from the file.
void drop_changed_open_rows(std::span<std::byte> bytes, std::ifstream& file) {
  const FlightTable open = read_header(bytes).identity.open;
  std::vector<FlightRecord> rows(open.count);
  file.clear();
  file.seekg(kRecordsAt);
  file.read(reinterpret_cast<char*>(bytes.data()) + kRecordsAt, sizeof FlightStatus::records);
  file.seekg(open.offset);
  file.read(reinterpret_cast<char*>(rows.data()),
            static_cast<std::streamsize>(rows.size() * sizeof(FlightRecord)));
  if (!file) return;
  std::vector<std::uint64_t> sequences;
  for (const FlightRecord& row : rows) sequences.push_back(row.sequence);
  drop_changed_rows(bytes, open, sequences);
}

}  // namespace

FlightLog parse_flight(std::span<const std::byte> bytes, std::uint64_t most_finished) {
  return Parser(bytes, most_finished).parse();
}

FlightLog read_flight(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: cannot be read", path));
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  try {
    drop_changed_open_rows(std::as_writable_bytes(std::span(bytes)), file);
    FlightLog log = parse_flight(std::as_bytes(std::span(bytes)));
    log.path = path;
    return log;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace horo::observe
