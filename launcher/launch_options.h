#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace horo {

/// The largest number of ranks of a job.
inline constexpr int kMaxRanks = 65536;

/// The options of `hororun run`.
struct LaunchOptions {
  std::optional<int> ranks;          ///< -np; if unset, one rank for each slot of the hosts
  std::optional<std::string> hosts;  ///< -H, as written
  std::optional<std::string> hostfile;
  std::optional<std::string> output_directory;
  std::vector<std::pair<std::string, std::string>> environment;  ///< --env, in the order given
  std::vector<std::string> mpi_arguments;                        ///< --mpi-args, split into words
  /// --grace-time: the time that the ranks have after SIGTERM to end
  std::chrono::milliseconds grace_time{30000};
  bool oversubscribe = false;
  bool dry_run = false;
  bool help = false;
  std::vector<std::string> program;  ///< the program and its arguments, unchanged
};

/// Reads the words after `hororun run`. Options end before the first word that is neither an option
/// nor the value of an option. From there on, all words belong to the program, except for a leading
/// "--". Throws InvalidArgument with the wrong word and the remedy.
LaunchOptions parse_launch_options(std::span<const std::string> words);

/// The text of --help.
std::string launch_help();

}  // namespace horo
