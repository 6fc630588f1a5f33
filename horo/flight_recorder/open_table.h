#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include "horo/flight_recorder/flight_memory.h"

namespace horo::observe {

/// Writes the table of names of a recorder. Stores each text once, and numbers the names in the
/// order of their first use. Thread-safe. The lookup of a name that is already in the table takes
/// no lock.
class NameTable {
 public:
  explicit NameTable(const FlightLayout& layout) : layout_(layout) {}

  /// Returns the id of the first kMaxNameBytes bytes of `name`. Returns 0 if the name is empty, or
  /// if it is new and the table of names or of texts has no room for it.
  NameId id_of(std::string_view name);

  static constexpr std::size_t kMaxNameBytes = 240;
  /// The mutex that is locked while a name is appended. While it is locked, the names do not
  /// change.
  std::mutex& mutex() const { return mutex_; }

 private:
  std::string_view text_of(NameId id) const;
  NameId find(std::string_view name, std::size_t& slot) const;
  NameId append(std::string_view name);

  const FlightLayout& layout_;
  mutable std::mutex mutex_;  // guards append()
  std::array<std::atomic<NameId>, 2 * kNameEntries> slots_{};
};

class FlightRecorder;

/// An open record: an operation that was submitted and has not finished, or a running callback.
/// This object owns a row of the table of open operations until finish() or the destructor. If the
/// table is full or the record has no name, the object has no row, and FlightStatus::unlisted
/// counts the open record instead. Used by one thread at a time. The recorder must outlive this
/// object.
class OpenFlight {
 public:
  OpenFlight() = default;
  OpenFlight(OpenFlight&& other) noexcept
      : recorder_(std::exchange(other.recorder_, nullptr)),
        row_(other.row_),
        record_(other.record_) {}
  OpenFlight& operator=(OpenFlight&& other) noexcept {
    std::swap(recorder_, other.recorder_);
    std::swap(row_, other.row_);
    std::swap(record_, other.record_);
    return *this;
  }
  /// Does nothing after finish(). Otherwise frees the row and adds nothing to the ring. If the rank
  /// has failed or has left the job, the operation is recorded as abandoned instead: the row stays,
  /// and its `ended` becomes the current time.
  ~OpenFlight();

  /// Records when the negotiation of the operation ended on this rank, and when the operation
  /// started.
  void start(std::int64_t agreed, std::int64_t started);
  /// Moves the record to the ring, frees the row, and counts the operation in
  /// FlightStatus::finished.
  void finish(std::int64_t ended);

 private:
  friend class OpenTable;
  FlightRecorder* recorder_ = nullptr;
  std::uint32_t row_ = 0;
  FlightRecord record_{};
};

/// Writes the table of open operations of a recorder. Thread-safe and lock-free.
class OpenTable {
 public:
  explicit OpenTable(const FlightLayout& layout) : layout_(layout) {}

  OpenFlight add(const FlightRecord& record, FlightRecorder& recorder);
  void write(std::uint32_t row, const FlightRecord& record);
  /// Frees `row`. If `row` is kNoRow, decrements FlightStatus::unlisted.
  void free(std::uint32_t row);

  static constexpr std::uint32_t kNoRow = ~0u;

 private:
  std::uint32_t allocate_row();

  const FlightLayout& layout_;
  std::atomic<std::uint64_t> opened_{0};
  std::array<std::atomic<std::uint64_t>, kOpenEntries / 64> used_{};  // one bit for each row
};

}  // namespace horo::observe
