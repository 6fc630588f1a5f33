#pragma once

#include <array>
#include <atomic>
#include <utility>

#include "horo/observe/flight_layout.h"

namespace horo::observe {

class FlightRecorder;

/// An operation that was submitted and has not finished: a row of the table of open operations, as
/// long as this lives and it is not finished. If the table was full, or the name was lost, it has
/// no row and is counted in FlightStatus::unlisted instead. Used by one thread at a time.
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
  /// Given up: the row is freed and nothing recorded, unless the rank has failed: then it stays,
  /// with the time.
  ~OpenFlight();

  /// All ranks have agreed to run it, and it has begun.
  void start(std::int64_t agreed, std::int64_t started);
  /// It ended: its record goes to the ring.
  void finish(std::int64_t ended);

 private:
  friend class OpenTable;
  FlightRecorder* recorder_ = nullptr;
  std::uint32_t row_ = 0;
  FlightRecord record_{};
};

/// The writing side of the table of open operations. Thread-safe, without locks.
class OpenTable {
 public:
  explicit OpenTable(const FlightLayout& layout) : layout_(layout) {}

  OpenFlight add(const FlightRecord& record, FlightRecorder& recorder);
  void write(std::uint32_t row, const FlightRecord& record);
  /// What an OpenFlight ends with; kNoRow: it was counted as unlisted.
  void free(std::uint32_t row);

  static constexpr std::uint32_t kNoRow = ~0u;

 private:
  std::uint32_t take_row();

  const FlightLayout& layout_;
  std::atomic<std::uint64_t> opened_{0};
  std::array<std::atomic<std::uint64_t>, kOpenEntries / 64> taken_{};  // a bit for each row
};

}  // namespace horo::observe
