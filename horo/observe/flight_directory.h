#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// How many jobs' directories are kept under the default place.
inline constexpr std::size_t kKeptJobs = 8;

/// Where a job's flight recorders write.
struct FlightPlace {
  std::filesystem::path directory;
  bool is_default = true;  ///< under flight_base(): removed when the job has ended well
};

/// "TMPDIR/horo-UID", with /tmp for want of TMPDIR.
std::filesystem::path flight_base();
/// "rank.3.flight"
std::string flight_file_name(int rank);

/// What HORO_FLIGHT_DIR says: "off" (nothing), "auto" (a directory of the job's own under
/// flight_base()), "auto:NAME" (the one of that name there), or a directory.
std::optional<FlightPlace> flight_place(std::string_view setting, std::uint64_t job);

/// Makes the place's directory (0700). Throws Error that says why not; also if the default base
/// belongs to somebody else.
void make_flight_place(const FlightPlace& place);
/// Removes a rank's file, and the directories if they are empty then.
void remove_flight(const FlightPlace& place, int rank) noexcept;
/// That the launcher was told by a signal to stop the job.
struct StopOrder {
  int signal = 0;
  WallTime at = 0;
};
/// Leaves word of it beside the files of the job's ranks, as far as that is possible.
void note_stop(const std::filesystem::path& directory, const StopOrder& order) noexcept;
/// The latest that was left there.
std::optional<StopOrder> stop_noted_in(const std::filesystem::path& directory);

/// How the launcher says that the first rank ended.
struct FirstEnd {
  int rank = 0;
  WallTime at = 0;  ///< when the job had ended, by this host's clock
  std::string how;  ///< the predicate of a sentence: "was killed by signal 9 (Killed)"
};
/// Leaves it beside the files of the job's ranks, as far as that is possible.
void note_first_end(const std::filesystem::path& directory, const FirstEnd& end) noexcept;
/// What was left there last.
std::optional<FirstEnd> first_end_noted_in(const std::filesystem::path& directory);

/// Removes jobs' directories under `base` but for the newest kKeptJobs and those of running jobs.
/// Only files that flight_file_name() may have named, and the launcher's notes, are removed.
void prune_flights(const std::filesystem::path& base) noexcept;

/// The directories of jobs under `base`, the newest first.
std::vector<std::filesystem::path> flight_jobs(const std::filesystem::path& base);
/// The ranks' files in a directory, by rank.
std::vector<std::filesystem::path> flight_files(const std::filesystem::path& directory);

}  // namespace horo::observe
