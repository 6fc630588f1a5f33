#pragma once

#include <span>
#include <string>

#include "horo/flight_recorder/flight_reader.h"

namespace horo::observe {

/// Returns the flight recorders of all ranks as one trace in Chrome's Trace Event Format (JSON,
/// times in us), for chrome://tracing and ui.perfetto.dev. Each rank is a process with these lanes:
///
///   phases               the spans of Context::phase() and pause()
///   program (exposed)    exchanges on the program's threads, and their waits for exchanges on a
///                        plan's thread
///   named operations     exchanges on the coordinator's thread
///   one lane for a plan  buckets that the plan's thread exchanged
///   negotiation          from submission to agreement, and from agreement to the start ("queue")
///   gradients            from the first mark of a bucket to its last mark, and from the last mark
///                        to the start of the exchange ("queue")
///
/// Operations that did not finish end at the rank's last heartbeat, or at their last recorded time
/// if it is later. Their names end with "(open)". All times are by rank 0's clock, and the earliest
/// time is 0. Pure. The trace has about 200 bytes for each part of an operation.
std::string timeline_json(std::span<const FlightLog> ranks);

}  // namespace horo::observe
