#include "horo/coordinator/operation_flights.h"

namespace horo::coordinator {

// Looks up the names of kinds here, so open() need not look them up for each operation.
OperationFlights::OperationFlights(observe::FlightRecorder& recorder, std::string_view process_set)
    : recorder_(recorder),
      process_set_(process_set.empty() ? std::uint16_t{0}
                                       : static_cast<std::uint16_t>(recorder.name(process_set))),
      callback_kind_(static_cast<std::uint16_t>(recorder.name(observe::kCallbackKind))) {
  has_lost_set_ = process_set_ == 0 && !process_set.empty();
  for (int kind = 0; kind < kKindCount; ++kind)
    kinds_[static_cast<std::size_t>(kind)] =
        static_cast<std::uint16_t>(recorder.name(name_of(static_cast<Kind>(kind))));
}

void OperationFlights::open(Entry& entry) {
  observe::FlightRecord record{};
  if (!has_lost_set_) record.name = recorder_.name(entry.request.name);
  record.kind = kinds_[static_cast<std::size_t>(entry.request.kind)];
  record.op = static_cast<std::uint8_t>(entry.request.op);
  record.type = static_cast<std::uint8_t>(entry.request.type);
  record.process_set = process_set_;
  record.lane = observe::kCoordinatorLane;
  record.bytes = entry.request.bytes();
  record.submitted = entry.submitted.time_since_epoch().count();
  entry.flight = recorder_.open(record);
}

observe::OpenFlight OperationFlights::run_callback_of(std::string_view operation) {
  observe::FlightRecord record{};
  record.name = recorder_.name(operation);
  record.kind = callback_kind_;
  record.process_set = process_set_;
  record.lane = observe::kCoordinatorLane;
  record.submitted = observe::flight_clock();
  return recorder_.open(record);
}

void OperationFlights::start(std::vector<Entry>& entries) {
  // agreed_ is equal for all responses of one message, but each response has its own start time.
  const std::int64_t now = observe::flight_clock();
  for (Entry& entry : entries) entry.flight.start(agreed_, now);
}

void OperationFlights::finish(std::vector<Entry>& entries) {
  const std::int64_t now = observe::flight_clock();
  for (Entry& entry : entries) entry.flight.finish(now);
}

}  // namespace horo::coordinator
