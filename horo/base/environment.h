#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "horo/base/text/log.h"

namespace horo {

/// The algorithm of the collectives.
enum class Algorithm : std::uint8_t {
  kAuto,
  kSharedMemory,
  kRing,
  kHierarchical,
  kParameterServer,
  kMpi
};
std::string_view name_of(Algorithm algorithm);

/// The algorithm of allreduces over messages.
enum class MessageAllreduce : std::uint8_t { kAuto, kExchange, kDoubling, kHalving, kRing };
std::string_view name_of(MessageAllreduce allreduce);

/// The kind of stores to memory that other ranks read.
enum class Stores : std::uint8_t { kAuto, kPlain, kStreaming };
std::string_view name_of(Stores stores);

/// How the processes of a job that MPI connects send messages between nodes, and control messages.
enum class Messages : std::uint8_t { kAuto, kMpi, kSockets };
std::string_view name_of(Messages messages);

/// Whether horo binds ranks to processors.
enum class Binding : std::uint8_t { kAuto, kNone };
std::string_view name_of(Binding binding);

/// The values of all HORO_ settings. Inside the library, only init() and testing.h read HORO_
/// variables. Each call of init() reads them once. init() throws MismatchError if a setting differs
/// between the ranks of a job, unless its SettingInfo::same_on_all_ranks is false.
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
  std::string link_file;  ///< empty if there is none
  std::size_t servers = 0;
  Stores stores = Stores::kAuto;
  Messages messages = Messages::kAuto;
  std::vector<std::string> interfaces;  ///< of the network; empty: all but loopback
  Binding binding = Binding::kAuto;
  std::chrono::nanoseconds spin{};
  std::size_t cache_capacity = 0;
  std::size_t ranks_per_node = 0;
  std::string flight_dir;  ///< see observe::flight_location()
  bool autotune = false;
  std::string autotune_file;  ///< empty if there is none
  std::string metrics_dir;    ///< empty if off
  bool gpu_oversubscribe = false;
  std::size_t nccl_max_ctas = 0;  ///< 0: NCCL decides

  Settings();  ///< the defaults
  bool operator==(const Settings&) const = default;
};

/// One row of the settings table: the documentation and the parser of one variable.
struct SettingInfo {
  std::string_view name;           ///< "HORO_TIMEOUT"
  std::string_view default_value;  ///< as a user would write it
  std::string_view accepts;        ///< "a duration", "auto, plain or streaming", ...
  std::string_view meaning;        ///< a few sentences: what the setting does and when to change it
  bool same_on_all_ranks;          ///< whether init() compares the value between ranks
  void (*parse)(Settings&, std::string_view);
};
// Reading the table is safe while another thread runs the destructors of exit().
static_assert(std::is_trivially_destructible_v<SettingInfo>);

/// Returns the table, in the order of the documentation.
std::span<const SettingInfo> settings_table();

/// The result of reading an environment.
struct ParsedEnvironment {
  Settings settings;
  /// value_of[i]: the text of settings_table()[i] that is in effect.
  std::vector<std::string> value_of;
  /// One line for each HORO_ variable that is not a setting, with the name of a similar setting if
  /// there is one.
  std::vector<std::string> warnings;
};

/// Parses the "NAME=VALUE" entries whose names begin with HORO_, except HORO_TEST_ entries. The
/// last entry of a name is in effect. If a value is invalid, throws InvalidArgument with the
/// variable and the values that it accepts.
ParsedEnvironment parse_environment(std::span<const std::string> entries);
/// Whether two texts of a setting mean the same value, such as "1" and "on", or "1MiB" and
/// "1024KiB". Texts that do not parse mean the same value only if they are equal.
bool is_same_value(const SettingInfo& setting, std::string_view first, std::string_view second);
/// Returns the environment of this process, as "NAME=VALUE" entries.
std::vector<std::string> process_environment();
/// Whether the entries show that an MPI launcher (mpirun, or srun with PMI) started the process.
bool is_started_by_launcher(std::span<const std::string> entries);

/// Returns the text of docs/reference/environment.md, generated from the table.
std::string environment_markdown();

/// Returns the entry of `candidates` with the smallest edit distance to `word`, if that distance is
/// at most a third of the length of `word`; nullopt otherwise.
std::optional<std::string> nearest_match(std::string_view word,
                                         std::span<const std::string_view> candidates);

}  // namespace horo
