#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// Zero-initialised memory: either a mapped file, which outlives the process, or anonymous memory.
class FlightMemory {
 public:
  /// An empty `path` selects anonymous memory. Otherwise the constructor removes an existing file,
  /// creates the file with mode 0600, allocates all its blocks and maps it. On failure, throws
  /// Error with the reason and, for a file, the path.
  FlightMemory(const std::string& path, std::size_t bytes);
  ~FlightMemory();
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Marks as free the rows of open operations that were reused or freed while the recorder was
/// copied. Such a row may mix fields of two operations. `copy` is the copy of the recorder's
/// memory. `open` is the table of open operations, which must be inside `copy`. `sequences` are the
/// sequences of the recorder's rows in order, read after the copy.
void drop_changed_rows(std::span<std::byte> copy, const FlightTable& open,
                       std::span<const std::uint64_t> sequences);

/// The number of entries in each table of a recorder. kTextBytes is the size of the table of texts
/// in bytes. With these sizes, a file has 270 KiB.
inline constexpr std::uint32_t kNameEntries = 5120;
inline constexpr std::uint32_t kTextBytes = 96 * 1024;
inline constexpr std::uint32_t kOpenEntries = 256;
inline constexpr std::uint32_t kPlanEntries = 32;
inline constexpr std::uint32_t kGradientEntries = 4096;
inline constexpr std::uint32_t kRingEntries = 1024;

/// Returns an identity with the format version, the header size, the file size, and the offsets and
/// counts of the tables. All other fields are zero.
FlightIdentity flight_table_offsets();

/// A recorder's tables in its memory.
struct FlightLayout {
  FlightHeader* header = nullptr;
  std::span<FlightName> names;
  std::span<char> texts;
  std::span<FlightRecord> open;
  std::span<FlightPlanEntry> plans;
  std::span<FlightGradient> gradients;
  std::span<FlightMark> marks;
  std::span<FlightRecord> ring;

  /// Locates the tables of `identity` in `memory`. Writes the magic, the identity and its checksum
  /// to the header.
  FlightLayout(std::span<std::byte> memory, const FlightIdentity& identity);
};

/// Atomic accesses to a field that other threads or processes read or write concurrently.
template <typename T>
void store_relaxed(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
template <typename T>
void store_release(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_release);
}
template <typename T>
T load_relaxed(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

/// Writes `record` with `sequence` into a row that only the calling thread writes. A concurrent
/// reader can detect an incomplete record.
void write_record(FlightRecord& slot, const FlightRecord& record, std::uint64_t sequence);
/// Writes `record` with `sequence` into a ring slot that several threads may write. Drops `record`
/// if the slot has a higher sequence, or if another thread writes to the slot at the same time.
void write_latest_record(FlightRecord& slot, const FlightRecord& record, std::uint64_t sequence);

}  // namespace horo::observe
