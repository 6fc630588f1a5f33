#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "horo/observe/flight_reader.h"
#include "horo/observe/rank_snapshot.h"

namespace horo {

/// What the flight recorders' files of one job say.
struct DoctorReport {
  std::filesystem::path directory;
  int size = 0;                                  ///< ranks of the job
  std::vector<observe::FlightLog> logs;          ///< by rank
  std::vector<observe::RankSnapshot> snapshots;  ///< of the same ranks
  std::vector<int> absent;                       ///< ranks without a (readable) file
  std::vector<std::string> problems;             ///< one line for each file that was left aside
  observe::WallTime now = 0;  ///< rank 0's clock: of now, or of the end if nobody runs any more
  observe::Verdict verdict;
};

/// Reads all ranks' files of `directory`, and what the launcher noted beside them. If the files are
/// of several jobs, the newest job counts, and it must be newer than `older_job` (0: any).
/// Throws InvalidArgument if there is none that can be read.
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
