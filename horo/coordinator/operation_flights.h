#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "horo/coordinator/entry.h"
#include "horo/observe/flight_recorder.h"

namespace horo::coordinator {

/// Tells the flight recorder of named operations: an entry is open there from submission until it
/// is finished or gone.
class OperationFlights {
 public:
  /// `recorder` outlives this and all entries. `process_set`: empty for all ranks.
  OperationFlights(observe::FlightRecorder& recorder, std::string_view process_set);

  /// On submission, by any thread.
  void open(Entry& entry);
  /// What starts next was agreed on when a message of responses was taken in, now or at that time.
  /// Coordinator thread, like all that follows.
  void agree() { agreed_ = observe::flight_clock(); }
  void agree(std::int64_t agreed) { agreed_ = agreed; }
  std::int64_t agreed() const { return agreed_; }
  /// The operations of one response begin, and end.
  void start(std::vector<Entry>& entries);
  void finish(std::vector<Entry>& entries);
  /// The completion callback of `operation` runs as long as the result lives.
  observe::OpenFlight run_callback_of(std::string_view operation);
  /// An operation ended with an error.
  void note_error(std::string_view text) { recorder_.note_error(text); }
  /// The rank cannot go on.
  void fail(std::string_view text) noexcept { recorder_.fail(text); }

 private:
  observe::FlightRecorder& recorder_;
  const std::uint16_t process_set_, callback_kind_;
  bool has_lost_set_ = false;  // operations are recorded without a name, so that none seems to be
                               // one of all ranks
  std::array<std::uint16_t, kKindCount> kinds_{};
  std::int64_t agreed_ = 0;
};

}  // namespace horo::coordinator
