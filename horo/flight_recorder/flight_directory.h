#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The number of jobs whose directories are kept under flight_base().
inline constexpr std::size_t kKeptJobs = 8;

/// The directory in which the flight recorders of a job write their files.
struct FlightLocation {
  std::filesystem::path directory;
  /// Whether HORO_FLIGHT_DIR is "auto" or "auto:NAME". In that case, the directory is removed when
  /// the job ends without failure.
  bool is_default = true;
};

/// "DIR/horo-UID". DIR is std::filesystem::temp_directory_path(), usually TMPDIR or /tmp.
std::filesystem::path flight_base();
/// "rank.3.flight"
std::string flight_file_name(int rank);

/// Parses HORO_FLIGHT_DIR: "off" (nullopt), "auto" (a directory named after the job under
/// flight_base()), "auto:NAME" (the directory NAME under flight_base()), or the path of a
/// directory.
std::optional<FlightLocation> flight_location(std::string_view setting, std::uint64_t job);

/// Creates the directory. A directory under flight_base(), and flight_base() itself, get mode 0700.
/// Throws Error with the reason if the creation fails, or if flight_base() or a directory under it
/// belongs to another user.
void create_flight_directory(const FlightLocation& location);
/// Removes a rank's file. Then removes the directory of the location if it is empty, and the parent
/// of that directory if it is empty too.
void remove_flight(const FlightLocation& location, int rank) noexcept;

/// A request to stop the job. The launcher received it as a signal.
struct StopRequest {
  int signal = 0;
  WallTime at = 0;
};
/// Writes the request to the job's directory. Ignores errors.
void record_stop_request(const std::filesystem::path& directory, const StopRequest& order) noexcept;
/// Returns the request that was written last, or nullopt if there is none.
std::optional<StopRequest> read_stop_request(const std::filesystem::path& directory);

/// The launcher's report about the rank that ended first.
struct FirstEnd {
  int rank = 0;
  WallTime at = 0;  ///< when the launcher wrote the report, by the clock of the launcher's host
  std::string how;  ///< predicate of a sentence: "was killed by signal 9 (Killed)"
};
/// Writes the report to the job's directory. Ignores errors.
void record_first_end(const std::filesystem::path& directory, const FirstEnd& end) noexcept;
/// Returns the report that was written last, or nullopt if there is none.
std::optional<FirstEnd> read_first_end(const std::filesystem::path& directory);

/// Removes directories of jobs under `base`, except the newest kKeptJobs directories and the
/// directories of running jobs. Removes only the launcher's reports and files whose names have the
/// form of flight_file_name().
void prune_flights(const std::filesystem::path& base) noexcept;

/// The directories of jobs under `base`, newest first.
std::vector<std::filesystem::path> flight_jobs(const std::filesystem::path& base);
/// The files of ranks in a directory, in order of rank.
std::vector<std::filesystem::path> flight_files(const std::filesystem::path& directory);

}  // namespace horo::observe
