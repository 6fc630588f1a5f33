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
  int size = 0;                                  ///< ranks of the job
  std::vector<observe::FlightLog> logs;          ///< by rank
  std::vector<observe::RankSnapshot> snapshots;  ///< of the same ranks
  std::vector<int> absent;                       ///< ranks without a (readable) file
  std::vector<std::string> problems;             ///< one line for each file that was skipped
  observe::WallTime now = 0;  ///< by rank 0's clock; the end of the job if no rank runs
  observe::Verdict verdict;
};

/// Reads the files of all ranks in `directory`, and the report of the launcher in the same
/// directory. If there are files of several jobs, reads the newest job, which must be newer than
/// `older_job` (0: any). Throws InvalidArgument if no file can be read.
DoctorReport examine(const std::filesystem::path& directory, std::chrono::nanoseconds stall_after,
                     std::uint64_t older_job = 0);

/// The verdict alone, in one or a few lines.
std::string verdict_text(const DoctorReport& report);
/// The verdict and a table of the ranks, for a console.
std::string to_text(const DoctorReport& report);
/// The same for programs: times in seconds before `now`.
std::string to_json(const DoctorReport& report);

/// "running", "stopped", "dead", "ended", "failed", "aborted", "signal 15".
std::string state_text(const observe::FlightLog& log, const observe::RankSnapshot& snapshot);

}  // namespace horo
