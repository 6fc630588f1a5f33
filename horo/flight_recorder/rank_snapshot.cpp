#include "horo/flight_recorder/rank_snapshot.h"

#include <chrono>

#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {
namespace {

void shift(WallTime& time, WallTime offset) {
  // Uses unsigned arithmetic, because a sum with a time from another process may overflow, and
  // signed overflow is undefined.
  if (time != 0)
    time = static_cast<WallTime>(static_cast<std::uint64_t>(time) +
                                 static_cast<std::uint64_t>(offset));
}

}  // namespace

bool is_of_plan(const OpenOperation& operation) {
  return operation.kind == kGradientKind || operation.kind == kBucketKind;
}

bool is_message(const OpenOperation& operation) {
  return operation.kind == kSendKind || operation.kind == kReceiveKind;
}

WallTime wall_time_now() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void shift_times(RankSnapshot& snapshot, WallTime offset) {
  for (WallTime* time : {&snapshot.taken, &snapshot.last_sign_of_life, &snapshot.last_finished_at,
                         &snapshot.phase_since, &snapshot.pause_since, &snapshot.callback_since})
    shift(*time, offset);
  for (OpenOperation& operation : snapshot.open) {
    shift(operation.submitted, offset);
    shift(operation.started, offset);
  }
}

}  // namespace horo::observe
