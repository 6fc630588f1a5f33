#include "horo/flight_recorder/flight_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "horo/base/error.h"
#include "horo/base/hash.h"

namespace horo::observe {

namespace {

[[noreturn]] void throw_system_error(const std::string& path, int error) {
  throw Error(fmt::format("{}: {}", path, std::strerror(error)));
}

// Creates a file and allocates all its blocks. Without the blocks, a write to the mapping would
// raise SIGBUS if the disk is full. O_EXCL rejects a file or link that another process creates
// after unlink().
int create_file(const std::string& path, std::size_t bytes) {
  ::unlink(path.c_str());
  const int descriptor = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_system_error(path, errno);
  int error = 0;
  do error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error == 0) return descriptor;
  close(descriptor);
  ::unlink(path.c_str());
  throw_system_error(path, error);
}

}  // namespace

FlightMemory::FlightMemory(const std::string& path, std::size_t bytes) {
  const int descriptor = path.empty() ? -1 : create_file(path, bytes);
  const int flags = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (memory == MAP_FAILED) throw_system_error(path.empty() ? "memory" : path, error);
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

FlightMemory::~FlightMemory() { munmap(bytes_.data(), bytes_.size()); }

// Each use of a row has a new sequence, and a free row has the sequence 0. If a row is reused while
// it is copied, its sequence in the copy is 0 or differs from the sequence that is read afterwards.
void drop_changed_rows(std::span<std::byte> copy, const FlightTable& open,
                       std::span<const std::uint64_t> sequences) {
  static_assert(offsetof(FlightRecord, sequence) == 0);
  constexpr std::uint64_t kFree = 0;
  for (std::size_t row = 0; row < std::min<std::size_t>(open.count, sequences.size()); ++row) {
    std::byte* const at = copy.data() + open.offset + row * sizeof(FlightRecord);
    if (std::memcmp(at, &sequences[row], sizeof kFree) != 0) std::memcpy(at, &kFree, sizeof kFree);
  }
}

namespace {

constexpr std::uint32_t kHeaderRoom = 4096;
static_assert(sizeof(FlightHeader) <= kHeaderRoom);

template <typename T>
FlightTable reserve_table(std::uint64_t& end, std::uint32_t count) {
  const FlightTable table{static_cast<std::uint32_t>(end), count};
  end = (end + sizeof(T) * count + 63) / 64 * 64;
  return table;
}

template <typename T>
std::span<T> table_at(std::span<std::byte> memory, const FlightTable& table) {
  return {reinterpret_cast<T*>(memory.data() + table.offset), table.count};
}

}  // namespace

FlightIdentity flight_table_offsets() {
  FlightIdentity identity{};
  identity.version = kFlightVersion;
  identity.header_bytes = sizeof(FlightHeader);
  std::uint64_t end = kHeaderRoom;
  identity.names = reserve_table<FlightName>(end, kNameEntries);
  identity.texts = reserve_table<char>(end, kTextBytes);
  identity.open = reserve_table<FlightRecord>(end, kOpenEntries);
  identity.plans = reserve_table<FlightPlanEntry>(end, kPlanEntries);
  identity.gradients = reserve_table<FlightGradient>(end, kGradientEntries);
  identity.marks = reserve_table<FlightMark>(end, kGradientEntries);
  identity.ring = reserve_table<FlightRecord>(end, kRingEntries);
  identity.file_bytes = end;
  return identity;
}

FlightLayout::FlightLayout(std::span<std::byte> memory, const FlightIdentity& identity)
    : header(reinterpret_cast<FlightHeader*>(memory.data())),
      names(table_at<FlightName>(memory, identity.names)),
      texts(table_at<char>(memory, identity.texts)),
      open(table_at<FlightRecord>(memory, identity.open)),
      plans(table_at<FlightPlanEntry>(memory, identity.plans)),
      gradients(table_at<FlightGradient>(memory, identity.gradients)),
      marks(table_at<FlightMark>(memory, identity.marks)),
      ring(table_at<FlightRecord>(memory, identity.ring)) {
  header->identity = identity;
  header->checksum = Hash().add_bytes(&header->identity, sizeof(FlightIdentity)).value();
  std::memcpy(header->magic, kFlightMagic, sizeof kFlightMagic);
}

namespace {

// Writes all fields except the sequence. Each word is stored with release order. A reader that
// loads a new word with acquire order therefore does not read the old sequence afterwards.
void write_fields(FlightRecord& slot, const FlightRecord& record) {
  using Words = std::uint64_t[sizeof(FlightRecord) / sizeof(std::uint64_t)];
  Words words;
  std::memcpy(words, &record, sizeof record);
  auto* target = reinterpret_cast<std::uint64_t*>(&slot);
  for (std::size_t i = 1; i < std::size(words); ++i)
    std::atomic_ref<std::uint64_t>(target[i]).store(words[i], std::memory_order_release);
}

}  // namespace

// A sequence lock: the sequence 0 marks the row as invalid while its fields change. The release
// store of the new sequence publishes the fields.
void write_record(FlightRecord& slot, const FlightRecord& record, std::uint64_t sequence) {
  store_relaxed(slot.sequence, std::uint64_t{0});
  write_fields(slot, record);
  store_release(slot.sequence, sequence);
}

// Two threads may write to one slot of the ring if one of them is delayed while other threads fill
// the whole ring. The thread that sets kBeingWritten owns the slot until it stores its sequence. A
// thread that does not set the bit drops its record.
void write_latest_record(FlightRecord& slot, const FlightRecord& record, std::uint64_t sequence) {
  std::uint64_t seen = load_relaxed(slot.sequence);
  if ((seen & kBeingWritten) != 0 || seen >= sequence) return;
  if (!std::atomic_ref(slot.sequence)
           .compare_exchange_strong(seen, sequence | kBeingWritten, std::memory_order_acq_rel))
    return;
  write_fields(slot, record);
  store_release(slot.sequence, sequence);
}

}  // namespace horo::observe
