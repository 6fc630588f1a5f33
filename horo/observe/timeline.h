#pragma once

#include <span>
#include <string>

#include "horo/observe/flight_reader.h"

namespace horo::observe {

/// The ranks' flights as one trace in Chrome's Trace Event Format (JSON, times in us), which
/// chrome://tracing and ui.perfetto.dev show: a process for each rank, in it
///   phases               what Context::phase() and pause() named
///   program              exchanges on the program's own threads, and its waits for those on a
///                        plan's thread: exposed communication
///   named operations     those of the coordinator's thread
///   a lane for each plan its buckets that were exchanged while the program computed
///   negotiation          from submission to agreement, and queueing from there to the start
///   gradients            from a bucket's first mark to its last
/// Operations that never finished end where the rank's last sign of life was, named "(open)". The
/// times of all hosts are rank 0's, the earliest begins at 0. Pure. Cost: about 200 bytes for each
/// part of an operation.
std::string timeline_json(std::span<const FlightLog> ranks);

}  // namespace horo::observe
