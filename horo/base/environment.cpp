#include "horo/base/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo {
namespace {

std::size_t parse_count(std::string_view text) {
  std::size_t value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size())
    throw InvalidArgument(fmt::format("'{}' is not a whole number", text));
  return value;
}

template <typename Enum>
Enum parse_choice(std::string_view text, std::initializer_list<Enum> choices) {
  std::string names;
  for (Enum choice : choices) {
    if (name_of(choice) == text) return choice;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(choice));
  }
  throw InvalidArgument(fmt::format("'{}' is not one of {}", text, names));
}

// Returns the value of an on/off setting; nullopt if the text is not such a value.
std::optional<bool> switch_of(std::string_view text) {
  for (const std::string_view on : {"on", "1", "true", "yes"})
    if (text == on) return true;
  for (const std::string_view off : {"off", "0", "false", "no"})
    if (text == off) return false;
  return std::nullopt;
}

bool parse_switch(std::string_view text) {
  const std::optional<bool> value = switch_of(text);
  if (!value)
    throw InvalidArgument(
        fmt::format("'{}' is not one of on, 1, true, yes, off, 0, false, no", text));
  return *value;
}

std::string parse_path(std::string_view text) {
  if (text.empty()) throw InvalidArgument("an empty text is not a path");
  if (switch_of(text))
    throw InvalidArgument(fmt::format("'{}' is not a path; write ./{} for that name", text, text));
  return std::string(text);
}

// Returns nothing for "auto".
std::vector<std::string> parse_names(std::string_view text) {
  std::vector<std::string> names;
  if (text == "auto") return names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end == at) throw InvalidArgument(fmt::format("'{}' has an empty name", text));
    names.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

LogLevel parse_log_level(std::string_view text) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warning", LogLevel::kWarning},
                                                               {"error", LogLevel::kError},
                                                               {"off", LogLevel::kOff}};
  for (const auto& [name, level] : kLevels)
    if (text == name) return level;
  throw InvalidArgument(fmt::format("'{}' is not one of debug, info, warning, error, off", text));
}

std::chrono::nanoseconds parse_positive_duration(std::string_view text) {
  const auto value = parse_duration(text);
  if (value.count() <= 0) throw InvalidArgument(fmt::format("'{}' must be more than 0", text));
  return value;
}

std::size_t parse_bytes_of_at_least(std::string_view text, std::size_t minimum) {
  const std::size_t value = parse_bytes(text);
  if (value < minimum)
    throw InvalidArgument(fmt::format("'{}' is less than {}", text, format_bytes(minimum)));
  return value;
}

// The only definition of each setting. The parser, `hororun settings` and
// docs/reference/environment.md use this table.
constexpr SettingInfo kTable[] = {
    {"HORO_LOG_LEVEL", "warning", "debug, info, warning, error or off",
     "The least severe messages that each rank writes to its standard error.", false,
     [](Settings& s, std::string_view v) { s.log_level = parse_log_level(v); }},
    {"HORO_TIMEOUT", "5min", "a duration",
     "The longest time that a rank waits for other ranks. A longer wait ends with "
     "CommunicationError. Raise it if ranks work alone for longer. Time in a Context::pause(), "
     "such as a long checkpoint, does not count.",
     true, [](Settings& s, std::string_view v) { s.timeout = parse_positive_duration(v); }},
    {"HORO_STALL_WARNING", "3s", "a duration",
     "A wait of this length is reported, with the awaited rank, its current work and the waiting "
     "ranks. A rank that sends no heartbeats is reported after this time at the earliest. Raise "
     "it if ranks often work alone for longer.",
     true, [](Settings& s, std::string_view v) { s.stall_warning = parse_positive_duration(v); }},
    {"HORO_BUCKET_BYTES", "4MiB", "a size",
     "The size of a bucket: gradients are exchanged together up to this size. Smaller buckets "
     "start earlier and overlap more with backward; larger ones need fewer collectives.",
     true, [](Settings& s, std::string_view v) { s.bucket_bytes = parse_bytes_of_at_least(v, 1); }},
    {"HORO_SEGMENT_BYTES", "256KiB", "a size, at least 4KiB",
     "The largest segment of a buffer in shared memory. It should fit into the second-level cache "
     "of a core.",
     true,
     [](Settings& s, std::string_view v) {
       // SharedMemoryCollectives requires a multiple of 4 KiB.
       s.segment_bytes = (parse_bytes_of_at_least(v, 4096) + 4095) / 4096 * 4096;
     }},
    {"HORO_RING_SEGMENT_BYTES", "1MiB", "a size, at least 4KiB",
     "The largest segment of a buffer that is sent between nodes. Several segments are in flight "
     "at once. Larger segments give a higher throughput on a link with high bandwidth or latency.",
     true,
     [](Settings& s, std::string_view v) {
       s.ring_segment_bytes = parse_bytes_of_at_least(v, 4096) / 64 * 64;
     }},
    {"HORO_DIRECT_BYTES", "4KiB", "a size, at most 64KiB",
     "Inside a node, an allreduce up to this size takes one step: every rank reads the values of "
     "every rank. Above this size, the ranks share the work.",
     true,
     [](Settings& s, std::string_view v) {
       s.direct_bytes = parse_bytes(v);
       if (s.direct_bytes > 65536) throw InvalidArgument(fmt::format("'{}' is more than 64KiB", v));
     }},
    {"HORO_ALGORITHM", "auto", "auto, shared_memory, ring, hierarchical, parameter_server or mpi",
     "Forces one algorithm for every collective, for tests and comparisons. auto: shared memory "
     "on one node; the ring on several nodes with one rank each; otherwise hierarchical. For "
     "GPUs, hierarchical uses NCCL inside the nodes and horo's own exchange between them, for "
     "networks that NCCL cannot use well; with any other value, NCCL connects all ranks.",
     true,
     [](Settings& s, std::string_view v) {
       s.algorithm = parse_choice(
           v, {Algorithm::kAuto, Algorithm::kSharedMemory, Algorithm::kRing,
               Algorithm::kHierarchical, Algorithm::kParameterServer, Algorithm::kMpi});
     }},
    {"HORO_ALLREDUCE", "auto", "auto, exchange, doubling, halving or ring",
     "The algorithm of an allreduce over messages, in the ring and between nodes. exchange: every "
     "rank sends everything to every rank; doubling: recursive doubling; halving: recursive "
     "halving and doubling; ring: the segmented ring. The first three give the same bits. auto: "
     "the fastest according to a cost model.",
     true,
     [](Settings& s, std::string_view v) {
       s.allreduce = parse_choice(
           v, {MessageAllreduce::kAuto, MessageAllreduce::kExchange, MessageAllreduce::kDoubling,
               MessageAllreduce::kHalving, MessageAllreduce::kRing});
     }},
    {"HORO_LINK_FILE", "none", "a path, or none",
     "A file with the measured cost of a message between nodes, one line per shape of job. If the "
     "file has a line for the shape of this job, rank 0 reads it and horo measures nothing. "
     "Otherwise rank 0 adds the measured cost. With this file, HORO_ALLREDUCE=auto uses the cost "
     "in the file in place of nominal figures, the same in every run.",
     true, [](Settings& s, std::string_view v) { s.link_file = v == "none" ? "" : v; }},
    {"HORO_SERVERS", "1", "a whole number, at least 1",
     "With HORO_ALGORITHM=parameter_server: the number of servers. Ranks 0, 1, ... are servers "
     "besides being workers.",
     true,
     [](Settings& s, std::string_view v) {
       s.servers = parse_count(v);
       if (s.servers == 0) throw InvalidArgument("'0' is less than 1");
     }},
    {"HORO_MESSAGES", "auto", "auto, mpi or sockets",
     "What carries messages between ranks. Data inside a node is in shared memory in any case. "
     "mpi: MPI, with the networks that it supports. sockets: horo's own sockets, TCP between "
     "nodes; horo then calls MPI only in init(). auto: MPI if the program has initialised it with "
     "MPI_THREAD_MULTIPLE or not at all, sockets if it has a lower thread level.",
     true,
     [](Settings& s, std::string_view v) {
       s.messages = parse_choice(v, {Messages::kAuto, Messages::kMpi, Messages::kSockets});
     }},
    {"HORO_INTERFACES", "auto", "names separated by commas, or auto",
     "The network interfaces at which other nodes connect to this rank, in the order in which they "
     "try them: for messages over horo's own sockets, and for the watchdogs. MPI has settings of "
     "its own. auto: all active interfaces except loopback.",
     false, [](Settings& s, std::string_view v) { s.interfaces = parse_names(v); }},
    {"HORO_STORES", "auto", "auto, plain or streaming",
     "The instructions that write values for the other ranks of the node. Plain stores are faster "
     "if the cores share a cache, streaming (non-temporal) stores if they do not. auto: measured "
     "at the start.",
     true,
     [](Settings& s, std::string_view v) {
       s.stores = parse_choice(v, {Stores::kAuto, Stores::kPlain, Stores::kStreaming});
     }},
    {"HORO_SPIN", "5us", "a duration",
     "How long a wait inside a collective polls before it yields the core and then sleeps. "
     "Treated as 0 if the node has more ranks than cores.",
     true, [](Settings& s, std::string_view v) { s.spin = parse_duration(v); }},
    {"HORO_BIND", "auto", "auto or none",
     "auto: binds each rank and its threads to an equal share of the cores, if mpirun has not "
     "bound the ranks and the node has at least one core per rank. OpenMP then gets as many "
     "threads. A rank for which OMP_NUM_THREADS exceeds the share is not bound. none: the "
     "operating system places the ranks.",
     true,
     [](Settings& s, std::string_view v) {
       s.binding = parse_choice(v, {Binding::kAuto, Binding::kNone});
     }},
    {"HORO_CACHE_CAPACITY", "4096", "a whole number",
     "The number of named tensors whose agreed description the ranks keep. A later submission of "
     "such a tensor sends a number in place of the description. A new tensor replaces the least "
     "recently used one.",
     true, [](Settings& s, std::string_view v) { s.cache_capacity = parse_count(v); }},
    {"HORO_RANKS_PER_NODE", "0", "a whole number",
     "Treats each group of this many consecutive ranks as a node, although they share a machine, "
     "for tests of the algorithms between nodes. 0: a node is a set of ranks that share memory.",
     true, [](Settings& s, std::string_view v) { s.ranks_per_node = parse_count(v); }},
    {"HORO_FLIGHT_DIR", "auto", "auto, off or a directory",
     "The directory for the files of the flight recorder, about 270 KiB per rank. A file remains "
     "if its rank crashes; hororun doctor reads the files. auto: a directory for this job under "
     "TMPDIR (or /tmp)/horo-UID, removed when the job succeeds. In a named directory the files "
     "stay. If all hosts share the directory, doctor shows all ranks together.",
     false,
     [](Settings& s, std::string_view v) {
       s.flight_dir = v == "off" || v == "auto" ? v : parse_path(v);
     }},
    {"HORO_AUTOTUNE", "off", "off, on (also 0 or 1) or a path",
     "on: during its first steps, at most 60, every GradientSync measures which bucket size, ring "
     "segment and algorithm give the shortest steps, and logs the result. A path: the result is "
     "also kept in that file, one line per set of gradients and shape of job; a later job with "
     "such a line measures nothing.",
     true,
     [](Settings& s, std::string_view v) {
       const std::optional<bool> value = switch_of(v);
       s.autotune = value.value_or(true);
       s.autotune_file = value ? "" : parse_path(v);
     }},
    {"HORO_METRICS", "off", "off (also 0) or a directory",
     "The directory in which each rank records, while the job runs, the duration and the parts of "
     "every step of its GradientSyncs: rank.N.jsonl with one line per step, and rank.N.prom for "
     "Prometheus. Rank 0 also records which rank the others wait for. docs/guides/metrics.md "
     "describes the files.",
     true,
     [](Settings& s, std::string_view v) {
       s.metrics_dir = switch_of(v) == false ? "" : parse_path(v);
     }},
    {"HORO_GPU_OVERSUBSCRIBE", "off", "off or on (also 0 or 1)",
     "on: ranks may share a GPU if a node has fewer GPUs than ranks. horo then sets the variables "
     "of NCCL that this needs, unless they are set already. Results are correct, but a collective "
     "takes milliseconds: for tests and development. off: such a job is refused at its start.",
     true, [](Settings& s, std::string_view v) { s.gpu_oversubscribe = parse_switch(v); }},
    {"HORO_NCCL_MAX_CTAS", "0", "a whole number, at most 64",
     "The largest number of blocks of threads that a collective of NCCL uses. Each block occupies "
     "a part of one multiprocessor, so fewer blocks leave more of the GPU to computation that "
     "overlaps with the exchange, and reach a lower bandwidth. 0: NCCL decides. NCCL_MAX_CTAS, if "
     "set, takes precedence.",
     true,
     [](Settings& s, std::string_view v) {
       s.nccl_max_ctas = parse_count(v);
       if (s.nccl_max_ctas > 64) throw InvalidArgument(fmt::format("'{}' is more than 64", v));
     }},
};

// Returns the Levenshtein distance, or `limit` if the distance is larger. Keeps one row of the
// table of distances, and stops when all values of a row have reached `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  const auto alike = std::ranges::mismatch(a, b).in1 - a.begin();
  a.remove_prefix(static_cast<std::size_t>(alike));
  b.remove_prefix(static_cast<std::size_t>(alike));
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    std::size_t nearest = row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      nearest = std::min(nearest, row[j]);
    }
    if (nearest >= limit) return limit;
  }
  return std::min(row.back(), limit);
}

std::string unknown_variable_warning(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SettingInfo& info : kTable) names.push_back(info.name);
  const auto near = nearest_match(name, names);
  return fmt::format("{} is not a setting of horo and is ignored{}", name,
                     near ? fmt::format("; did you mean {}?", *near)
                          : std::string("; docs/reference/environment.md lists them all"));
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::array<std::string_view, 6> kNames = {"auto",         "shared_memory",    "ring",
                                                      "hierarchical", "parameter_server", "mpi"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::string_view name_of(MessageAllreduce allreduce) {
  constexpr std::array<std::string_view, 5> kNames = {"auto", "exchange", "doubling", "halving",
                                                      "ring"};
  return kNames[static_cast<std::size_t>(allreduce)];
}

std::string_view name_of(Stores stores) {
  constexpr std::array<std::string_view, 3> kNames = {"auto", "plain", "streaming"};
  return kNames[static_cast<std::size_t>(stores)];
}

std::string_view name_of(Messages messages) {
  constexpr std::array<std::string_view, 3> kNames = {"auto", "mpi", "sockets"};
  return kNames[static_cast<std::size_t>(messages)];
}

std::string_view name_of(Binding binding) { return binding == Binding::kAuto ? "auto" : "none"; }

// The defaults pass through the same parsers as the environment, so the documented default and the
// actual default cannot differ.
Settings::Settings() {
  for (const SettingInfo& info : kTable) info.parse(*this, info.default_value);
}

std::span<const SettingInfo> settings_table() { return kTable; }

ParsedEnvironment parse_environment(std::span<const std::string> entries) {
  ParsedEnvironment result;
  for (const SettingInfo& info : kTable) result.value_of.emplace_back(info.default_value);
  for (std::string_view entry : entries) {
    if (!entry.starts_with("HORO_") || entry.starts_with("HORO_TEST_")) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    const auto row = std::find_if(std::begin(kTable), std::end(kTable),
                                  [&](const SettingInfo& info) { return info.name == name; });
    if (row == std::end(kTable)) {
      result.warnings.push_back(unknown_variable_warning(name));
      continue;
    }
    try {
      row->parse(result.settings, value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {} (accepts {})", name, error.what(), row->accepts));
    }
    result.value_of[static_cast<std::size_t>(row - std::begin(kTable))] = value;
  }
  return result;
}

bool is_same_value(const SettingInfo& setting, std::string_view first, std::string_view second) {
  if (first == second) return true;
  try {
    Settings of_first, of_second;
    setting.parse(of_first, first);
    setting.parse(of_second, second);
    return of_first == of_second;
  } catch (const InvalidArgument&) {
    return false;
  }
}

std::vector<std::string> process_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

bool is_started_by_launcher(std::span<const std::string> entries) {
  constexpr std::string_view kSigns[] = {
      "OMPI_COMM_WORLD_SIZE=", "PMIX_RANK=", "PMI_RANK=", "PMI_SIZE=", "MPI_LOCALNRANKS="};
  return std::any_of(entries.begin(), entries.end(), [&](std::string_view entry) {
    return std::any_of(std::begin(kSigns), std::end(kSigns),
                       [&](std::string_view sign) { return entry.starts_with(sign); });
  });
}

std::string environment_markdown() {
  std::string text =
      "# Settings\n\n"
      "Every setting is an environment variable. `horo::init()` reads them once. `hororun --env "
      "NAME=VALUE` sets one for every rank. Sizes take the units B, KiB, MiB, GiB (and KB, MB, GB "
      "for powers of ten); durations take ns, us, ms, s, min, h. horo reports an unknown `HORO_` "
      "variable with the nearest known name. If the ranks have different values of a setting "
      "marked *same*, the job ends at its start, with the setting, the ranks and both values.\n\n"
      "This page is generated from the table in `horo/base/environment.cpp` (`hororun settings "
      "--markdown`).\n\n"
      "| Variable | Default | Accepts | Same on all ranks | Meaning |\n|---|---|---|---|---|\n";
  for (const SettingInfo& info : kTable)
    text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", info.name, info.default_value,
                        info.accepts, info.same_on_all_ranks ? "same" : "may differ", info.meaning);
  return text;
}

// Accepts at most one error per three characters. Otherwise every unknown name would have a
// suggestion.
std::optional<std::string> nearest_match(std::string_view word,
                                         std::span<const std::string_view> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate, best_distance);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

}  // namespace horo
