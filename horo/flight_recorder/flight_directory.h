#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The number of jobs whose directories prune_flights() keeps.
inline constexpr std::size_t kKeptJobs = 8;
/// The time for which prune_flights() keeps any directory after its last change. A launcher reads
/// the records of its job in this time, even if many jobs end at once.
inline constexpr std::chrono::minutes kKeptAtLeast{1};

/// The directory in which the flight recorders of a job write their files.
struct FlightLocation {
  std::filesystem::path directory;
  /// Whether HORO_FLIGHT_DIR is "auto" or "auto:NAME". In that case, a rank removes its file when
  /// the job ends without failure; see remove_flight().
  bool is_default = true;
};

/// Returns "DIR/horo-UID". DIR is std::filesystem::temp_directory_path(), usually $TMPDIR or /tmp.
/// UID is the effective user id.
std::filesystem::path flight_base();
/// Returns a name such as "rank.3.flight".
std::string flight_file_name(int rank);

/// Parses HORO_FLIGHT_DIR: "off" (nullopt), "auto" (a directory under flight_base(), named after
/// `job`), "auto:NAME" (the directory NAME under flight_base()), or the path of a directory.
std::optional<FlightLocation> flight_location(std::string_view setting, std::uint64_t job);

/// Creates the directory if it does not exist. If the location is the default, first creates its
/// parent, flight_base(), in the same way. New directories of a default location get mode 0700, and
/// both directories must belong to this user and must not be links. Throws Error with the reason if
/// a directory cannot be created or does not meet these conditions.
void create_flight_directory(const FlightLocation& location);
/// Removes a rank's file. Then removes the directory if it is empty, and after that its parent if
/// the parent is empty too. Ignores errors.
void remove_flight(const FlightLocation& location, int rank) noexcept;

/// A request to stop the job, which the launcher received as a signal.
struct StopRequest {
  int signal = 0;
  WallTime at = 0;  ///< when the launcher received the signal, by the clock of its host
};
/// Writes the request to the job's directory. Ignores errors of the file system.
void record_stop_request(const std::filesystem::path& directory, const StopRequest& order) noexcept;
/// Returns the request that was written last. Returns nullopt if there is none or the file cannot
/// be read.
std::optional<StopRequest> read_stop_request(const std::filesystem::path& directory);

/// The launcher's report on the rank that was the first to fail, or to exit without a shutdown.
struct FirstEnd {
  int rank = 0;
  WallTime at = 0;  ///< when the launcher wrote the report, by the clock of the launcher's host
  std::string how;  ///< predicate of a sentence: "was killed by signal 9 (Killed)"
};
/// Writes the report to the job's directory. Ignores errors of the file system.
void record_first_end(const std::filesystem::path& directory, const FirstEnd& end) noexcept;
/// Returns the report that was written last. Returns nullopt if there is none or the file cannot be
/// read.
std::optional<FirstEnd> read_first_end(const std::filesystem::path& directory);

/// Removes directories of jobs under `base`, except the newest kKeptJobs directories, those that
/// have changed in the last kKeptAtLeast, and those of running jobs. In these directories, removes
/// only the files of ranks and of the launcher. A directory that has other files stays. Ignores
/// errors.
void prune_flights(const std::filesystem::path& base) noexcept;

/// Returns the directories under `base` that have files of ranks, most recently modified first.
std::vector<std::filesystem::path> flight_jobs(const std::filesystem::path& base);
/// Returns the files in a directory whose names have the form of flight_file_name(), in order of
/// rank.
std::vector<std::filesystem::path> flight_files(const std::filesystem::path& directory);

}  // namespace horo::observe
