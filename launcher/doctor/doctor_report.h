#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "horo/diagnosis/diagnose.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo {

/// The contents of the flight recorders of one job, with a verdict.
struct DoctorReport {
  std::filesystem::path directory;
  int size = 0;                                  ///< number of ranks of the job
  std::vector<observe::FlightLog> logs;          ///< one for each rank whose file was read
  std::vector<observe::RankSnapshot> snapshots;  ///< of the same ranks, in the same order
  std::vector<int> absent;                       ///< ranks without a readable file
  std::vector<std::string> problems;             ///< one line for each file that was ignored
  observe::WallTime now = 0;  ///< the latest time of a snapshot, by rank 0's clock
  observe::Verdict verdict;
};

/// Reads the flight recorder files in `directory`, and the reports of the launcher in the same
/// directory. If there are files of several jobs, uses those of the newest job. Throws
/// InvalidArgument if no file can be read, or if the newest job is not newer than `older_job`.
DoctorReport examine(const std::filesystem::path& directory, std::chrono::nanoseconds stall_after,
                     std::uint64_t older_job = 0);

/// The verdict without the table of the ranks, in one or a few lines.
std::string verdict_text(const DoctorReport& report);
/// The verdict and a table of the ranks, for a console.
std::string to_text(const DoctorReport& report);
/// The same as JSON, for programs. Times are given in seconds before `now`.
std::string to_json(const DoctorReport& report);

/// The state of a rank: "aborted", "failed", "ended", "signal 15" (or another signal), "running",
/// "stopped", "silent", "dead" or "leaving".
std::string state_text(const observe::FlightLog& log, const observe::RankSnapshot& snapshot);

}  // namespace horo
