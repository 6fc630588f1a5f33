#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "horo/coordinator/entry.h"
#include "horo/flight_recorder/flight_recorder.h"

namespace horo::coordinator {

/// Records named operations in the flight recorder. The record of an entry is open from open()
/// until finish() or the destruction of the entry; see OpenFlight.
class OperationFlights {
 public:
  /// `recorder` must outlive this object and all entries with an open record. `process_set` is the
  /// name of the process set, or empty for operations of the whole job.
  OperationFlights(observe::FlightRecorder& recorder, std::string_view process_set);

  /// Opens the record of `entry`. Any thread may call open().
  void open(Entry& entry);
  /// Sets the time at which this rank received the responses of the operations that start next. The
  /// form without an argument sets the current time. Only one thread at a time may call agree(),
  /// agreed(), start() and finish().
  void agree() { agreed_ = observe::flight_clock(); }
  void agree(std::int64_t agreed) { agreed_ = agreed; }
  std::int64_t agreed() const { return agreed_; }
  /// Records that the operations of one response start now.
  void start(std::vector<Entry>& entries);
  /// Records that the operations of one response have ended, and closes their records.
  void finish(std::vector<Entry>& entries);
  /// Records that the completion callback of `operation` is running. The record is open until the
  /// returned object is destroyed.
  observe::OpenFlight run_callback_of(std::string_view operation);
  /// Records the error of an operation. This rank can continue.
  void note_error(std::string_view text) { recorder_.note_error(text); }
  /// Records that this rank has failed and cannot continue. See FlightRecorder::fail().
  void fail(std::string_view text) noexcept { recorder_.fail(text); }

 private:
  observe::FlightRecorder& recorder_;
  const std::uint16_t process_set_, callback_kind_;
  // True if the table of names had no room for the name of the process set. In that case, open()
  // records operations without a name. With a name, they would look like operations of the job.
  bool has_lost_set_ = false;
  std::array<std::uint16_t, kKindCount> kinds_{};
  std::int64_t agreed_ = 0;
};

}  // namespace horo::coordinator
