#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/log.h"

namespace horo {

/// How the bytes of one collective travel.
enum class Algorithm : std::uint8_t {
  kAuto,
  kSharedMemory,
  kRing,
  kHierarchical,
  kParameterServer,
  kMpi
};
std::string_view name_of(Algorithm algorithm);

/// How an allreduce travels over messages, where the algorithm uses them for allreduces.
enum class MessageAllreduce : std::uint8_t { kAuto, kExchange, kDoubling, kHalving, kRing };
std::string_view name_of(MessageAllreduce allreduce);

/// How a rank writes into memory that its peers read.
enum class Stores : std::uint8_t { kAuto, kPlain, kStreaming };
std::string_view name_of(Stores stores);

/// Whether ranks keep to cores of their own.
enum class Binding : std::uint8_t { kAuto, kNone };
std::string_view name_of(Binding binding);

/// Every HORO_ setting, parsed. Read once by init(); besides, only testing.h reads the environment.
/// All ranks of a job must have the same values, except for log_level.
struct Settings {
  LogLevel log_level = LogLevel::kWarning;
  std::chrono::nanoseconds timeout{};
  std::chrono::nanoseconds stall_warning{};
  std::size_t bucket_bytes = 0;
  std::size_t segment_bytes = 0;
  std::size_t ring_segment_bytes = 0;
  std::size_t direct_bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  MessageAllreduce allreduce = MessageAllreduce::kAuto;
  std::string link_file;  ///< empty: none
  std::size_t servers = 0;
  Stores stores = Stores::kAuto;
  Binding binding = Binding::kAuto;
  std::chrono::nanoseconds spin{};
  std::size_t cache_capacity = 0;
  std::size_t ranks_per_node = 0;
  std::string flight_dir;  ///< see observe::flight_place()
  bool autotune = false;
  std::string autotune_file;  ///< empty: none
  std::string metrics_dir;    ///< empty: off
  bool gpu_oversubscribe = false;

  Settings();  ///< the defaults
};

/// One row of the settings table: documentation and parser of one variable.
struct SettingInfo {
  std::string_view name;           ///< "HORO_TIMEOUT"
  std::string_view default_value;  ///< as a user would write it
  std::string_view accepts;        ///< "a duration", "auto, plain or streaming", ...
  std::string_view meaning;        ///< one or two sentences: what it does, when to change it
  bool same_on_all_ranks;          ///< compared between ranks by init()
  std::function<void(Settings&, std::string_view)> parse;
};

/// The table, in the order of the documentation.
std::span<const SettingInfo> settings_table();

/// The result of reading an environment.
struct ParsedEnvironment {
  Settings settings;
  /// value_of[i]: the text in force for settings_table()[i].
  std::vector<std::string> value_of;
  /// One line for each HORO_ variable that no setting has, with the nearest name that exists.
  std::vector<std::string> warnings;
};

/// Parses "NAME=VALUE" entries that begin with HORO_, but not HORO_TEST_ (those are testing.h's).
/// Throws InvalidArgument that names the variable and what it accepts.
ParsedEnvironment parse_environment(std::span<const std::string> entries);
/// The process's own environment, as "NAME=VALUE" entries.
std::vector<std::string> process_environment();
/// Whether the entries show that an MPI launcher (mpirun, or srun with PMI) started the process.
bool is_started_by_launcher(std::span<const std::string> entries);

/// docs/environment.md, generated from the table.
std::string environment_markdown();

/// The entry of `candidates` closest to `word` by edit distance, if it is at most a third of the
/// word's length away.
std::optional<std::string> nearest_match(std::string_view word,
                                         std::span<const std::string_view> candidates);

}  // namespace horo
