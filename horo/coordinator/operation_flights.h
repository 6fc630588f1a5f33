#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "horo/coordinator/entry.h"
#include "horo/flight_recorder/flight_recorder.h"

namespace horo::coordinator {

/// Records named operations in the flight recorder. The record of an entry is open from submission
/// until the entry is finished or destroyed.
class OperationFlights {
 public:
  /// `recorder` must outlive this object and all entries. An empty `process_set` means all ranks.
  OperationFlights(observe::FlightRecorder& recorder, std::string_view process_set);

  /// Opens the record of a submitted entry. Any thread may call open().
  void open(Entry& entry);
  /// Sets the time at which this rank received the responses of the operations that start next. The
  /// default is the current time. One thread at a time may call agree(), start() and finish(). This
  /// thread is the owner of the coordinator's rounds or the thread of a DeviceOperationQueue.
  void agree() { agreed_ = observe::flight_clock(); }
  void agree(std::int64_t agreed) { agreed_ = agreed; }
  std::int64_t agreed() const { return agreed_; }
  /// Records the start and the end of the operations of one response.
  void start(std::vector<Entry>& entries);
  void finish(std::vector<Entry>& entries);
  /// Records that the completion callback of `operation` is running. The record is open until the
  /// result is destroyed.
  observe::OpenFlight run_callback_of(std::string_view operation);
  /// Records that an operation ended with an error.
  void note_error(std::string_view text) { recorder_.note_error(text); }
  /// Records that this rank has failed permanently.
  void fail(std::string_view text) noexcept { recorder_.fail(text); }

 private:
  observe::FlightRecorder& recorder_;
  const std::uint16_t process_set_, callback_kind_;
  // True if the table of names had no room for the process set. In that case, operations are
  // recorded without a name. With a name, they would look like operations of all ranks.
  bool has_lost_set_ = false;
  std::array<std::uint16_t, kKindCount> kinds_{};
  std::int64_t agreed_ = 0;
};

}  // namespace horo::coordinator
