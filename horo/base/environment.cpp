#include "horo/base/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "horo/base/error.h"
#include "horo/base/quantity.h"

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

bool parse_switch(std::string_view text) {
  if (text != "off" && text != "on")
    throw InvalidArgument(fmt::format("'{}' is not one of off, on", text));
  return text == "on";
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

const std::vector<SettingInfo>& table() {
  static const std::vector<SettingInfo> rows = {
      {"HORO_LOG_LEVEL", "warning", "debug, info, warning, error or off",
       "What each rank writes to its standard error.", false,
       [](Settings& s, std::string_view v) { s.log_level = parse_log_level(v); }},
      {"HORO_TIMEOUT", "5min", "a duration",
       "How long any wait for other ranks may last before it ends with CommunicationError. Raise "
       "it if ranks legitimately work apart for longer; time in a Context::pause(), as of a long "
       "checkpoint, does not count.",
       true, [](Settings& s, std::string_view v) { s.timeout = parse_positive_duration(v); }},
      {"HORO_STALL_WARNING", "3s", "a duration",
       "After this long a wait for a rank is reported, with the rank, what it does meanwhile and "
       "who "
       "waits; at least as long after it was last heard for a rank that gives no sign of life. "
       "Raise "
       "it if ranks often work apart for longer.",
       true, [](Settings& s, std::string_view v) { s.stall_warning = parse_positive_duration(v); }},
      {"HORO_BUCKET_BYTES", "4MiB", "a size",
       "Gradients are exchanged together until they reach this size. Smaller buckets start earlier "
       "and "
       "overlap more with backward; larger ones cost fewer collectives.",
       true,
       [](Settings& s, std::string_view v) { s.bucket_bytes = parse_bytes_of_at_least(v, 1); }},
      {"HORO_SEGMENT_BYTES", "256KiB", "a size, at least 4KiB",
       "The largest piece of a buffer that moves through shared memory at a time. It should fit in "
       "a core's second-level cache.",
       true,
       [](Settings& s, std::string_view v) {
         // A multiple of 4 KiB keeps every chunk of a segment aligned for vector stores.
         s.segment_bytes = (parse_bytes_of_at_least(v, 4096) + 4095) / 4096 * 4096;
       }},
      {"HORO_RING_SEGMENT_BYTES", "1MiB", "a size, at least 4KiB",
       "The largest piece of a buffer that travels between nodes at a time. Several are on their "
       "way at once; larger ones keep a fast or far link busier.",
       true,
       [](Settings& s, std::string_view v) {
         s.ring_segment_bytes = parse_bytes_of_at_least(v, 4096) / 64 * 64;
       }},
      {"HORO_DIRECT_BYTES", "4KiB", "a size, at most 64KiB",
       "Up to this size an allreduce inside a node is done in one step: every rank reads every "
       "rank's "
       "values. Above it the ranks share the work.",
       true,
       [](Settings& s, std::string_view v) {
         s.direct_bytes = parse_bytes(v);
         if (s.direct_bytes > 65536)
           throw InvalidArgument(fmt::format("'{}' is more than 64KiB", v));
       }},
      {"HORO_ALGORITHM", "auto", "auto, shared_memory, ring, hierarchical, parameter_server or mpi",
       "Forces one algorithm for every collective; for tests and comparisons. auto: shared memory "
       "on one node; on several the ring where each has one rank, otherwise hierarchical. For "
       "GPUs: "
       "hierarchical is NCCL inside the nodes and horo's own exchange between them, for networks "
       "that NCCL cannot use well; with any other value NCCL connects all ranks.",
       true,
       [](Settings& s, std::string_view v) {
         s.algorithm = parse_choice(
             v, {Algorithm::kAuto, Algorithm::kSharedMemory, Algorithm::kRing,
                 Algorithm::kHierarchical, Algorithm::kParameterServer, Algorithm::kMpi});
       }},
      {"HORO_ALLREDUCE", "auto", "auto, exchange, doubling, halving or ring",
       "How an allreduce travels over messages, of the ring and between nodes: everything to "
       "everyone, recursive doubling, recursive halving and doubling, or the segmented ring; the "
       "first three give the same bits. auto: what a cost model predicts to be fastest.",
       true,
       [](Settings& s, std::string_view v) {
         s.allreduce = parse_choice(
             v, {MessageAllreduce::kAuto, MessageAllreduce::kExchange, MessageAllreduce::kDoubling,
                 MessageAllreduce::kHalving, MessageAllreduce::kRing});
       }},
      {"HORO_LINK_FILE", "none", "a path, or none",
       "Where the cost of a message between nodes is kept, one line for each shape of job. If the "
       "file has the job's shape, rank 0 reads it and nothing is measured; otherwise rank 0 adds "
       "what was measured. With it the choice of HORO_ALLREDUCE=auto between the ring and the "
       "others follows these figures in place of nominal ones, the same in every run.",
       true, [](Settings& s, std::string_view v) { s.link_file = v == "none" ? "" : v; }},
      {"HORO_SERVERS", "1", "a whole number, at least 1",
       "With HORO_ALGORITHM=parameter_server: how many ranks, from rank 0 on, are servers besides "
       "being workers.",
       true,
       [](Settings& s, std::string_view v) {
         s.servers = parse_count(v);
         if (s.servers == 0) throw InvalidArgument("'0' servers cannot serve");
       }},
      {"HORO_STORES", "auto", "auto, plain or streaming",
       "How values are written for the other ranks of the node: plain stores are faster when the "
       "cores "
       "share a cache, streaming (non-temporal) stores when they do not. auto measures it.",
       true,
       [](Settings& s, std::string_view v) {
         s.stores = parse_choice(v, {Stores::kAuto, Stores::kPlain, Stores::kStreaming});
       }},
      {"HORO_SPIN", "5us", "a duration",
       "How long a wait inside a collective keeps its core before it yields and then sleeps. "
       "Ignored (0) when the node has more ranks than cores.",
       true, [](Settings& s, std::string_view v) { s.spin = parse_duration(v); }},
      {"HORO_BIND", "auto", "auto or none",
       "auto: when mpirun has not bound the ranks and a node has a core for each, a rank and its "
       "threads keep to an equal share of the cores, so that no two ranks meet on one. none: the "
       "operating system places them.",
       true,
       [](Settings& s, std::string_view v) {
         s.binding = parse_choice(v, {Binding::kAuto, Binding::kNone});
       }},
      {"HORO_CACHE_CAPACITY", "4096", "a whole number",
       "How many named tensors the ranks remember agreement on, so that a later submission sends a "
       "number "
       "in place of its description. The least recently used one is forgotten first.",
       true, [](Settings& s, std::string_view v) { s.cache_capacity = parse_count(v); }},
      {"HORO_RANKS_PER_NODE", "0", "a whole number",
       "Treats each run of this many ranks as a node of its own, although they share a machine; "
       "for tests of "
       "the algorithms between nodes. 0: nodes are what shares memory.",
       true, [](Settings& s, std::string_view v) { s.ranks_per_node = parse_count(v); }},
      {"HORO_FLIGHT_DIR", "auto", "auto, off or a directory",
       "Where each rank keeps its flight recorder's file (about 256 KiB), which outlives the rank "
       "however it ends; hororun doctor reads them. auto: a directory of the job's own under "
       "TMPDIR (or /tmp)/horo-UID, removed when the job ends well; in a directory that is named "
       "the files stay. If it is shared by the hosts, doctor sees all ranks in one place.",
       false,
       [](Settings& s, std::string_view v) {
         if (v.empty()) throw InvalidArgument("an empty text names no directory");
         s.flight_dir = v;
       }},
      {"HORO_AUTOTUNE", "off", "off, on or a path",
       "on: every GradientSync looks in its first steps, at most 60, for the bucket size, ring "
       "segment and algorithm with the shortest steps, and says what it found. A path: what was "
       "found is kept in that file, one line for each set of gradients and shape of job, and a "
       "later job with such a line searches nothing.",
       true,
       [](Settings& s, std::string_view v) {
         constexpr std::string_view kNoPaths[] = {"", "0", "1", "true", "false", "yes", "no"};
         if (std::ranges::find(kNoPaths, v) != std::end(kNoPaths))
           throw InvalidArgument(
               fmt::format("'{}' is none of these; a file of that name is ./{}", v, v));
         s.autotune = v != "off";
         s.autotune_file = v == "off" || v == "on" ? "" : v;
       }},
      {"HORO_METRICS", "off", "off or a directory",
       "Where each rank writes, while the job runs, what every step of its GradientSyncs took "
       "(rank.N.jsonl, a line for each) and a page for Prometheus (rank.N.prom); rank 0 which rank "
       "the others wait for. Set it to see where the time goes; docs/metrics.md says what is in "
       "it.",
       true,
       [](Settings& s, std::string_view v) {
         if (v.empty()) throw InvalidArgument("an empty text names no directory");
         s.metrics_dir = v == "off" ? "" : v;
       }},
      {"HORO_GPU_OVERSUBSCRIBE", "off", "off or on",
       "on: ranks may share a GPU where a node has fewer GPUs than ranks; NCCL is told what it "
       "needs "
       "for that, but for variables of its own that are set. Results are right, times are "
       "milliseconds per collective: for tests and development. off: such a job is refused at its "
       "start.",
       true, [](Settings& s, std::string_view v) { s.gpu_oversubscribe = parse_switch(v); }},
  };
  return rows;
}

// At most `limit`, which stands for all that is as far or farther.
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
  for (const SettingInfo& info : table()) names.push_back(info.name);
  const auto near = nearest_match(name, names);
  return fmt::format("{} is not a setting of horo and is ignored{}", name,
                     near ? fmt::format("; did you mean {}?", *near)
                          : std::string("; docs/environment.md lists them all"));
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

std::string_view name_of(Binding binding) { return binding == Binding::kAuto ? "auto" : "none"; }

Settings::Settings() {
  for (const SettingInfo& info : table()) info.parse(*this, info.default_value);
}

std::span<const SettingInfo> settings_table() { return table(); }

ParsedEnvironment parse_environment(std::span<const std::string> entries) {
  ParsedEnvironment result;
  for (const SettingInfo& info : table()) result.value_of.emplace_back(info.default_value);
  for (std::string_view entry : entries) {
    if (!entry.starts_with("HORO_") || entry.starts_with("HORO_TEST_")) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    const auto row = std::find_if(table().begin(), table().end(),
                                  [&](const SettingInfo& info) { return info.name == name; });
    if (row == table().end()) {
      result.warnings.push_back(unknown_variable_warning(name));
      continue;
    }
    try {
      row->parse(result.settings, value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {} (accepts {})", name, error.what(), row->accepts));
    }
    result.value_of[static_cast<std::size_t>(row - table().begin())] = value;
  }
  return result;
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
      "Every setting is an environment variable. They are read once, by `horo::init()`; `hororun "
      "--env "
      "NAME=VALUE` passes one to every rank. Sizes take the units B, KiB, MiB, GiB (and KB, MB, GB "
      "for powers "
      "of ten), durations ns, us, ms, s, min, h. An unknown `HORO_` variable is reported with the "
      "nearest name "
      "that exists. Ranks that disagree about a setting marked *same* are refused at start, with "
      "the setting, "
      "the ranks and both values.\n\n"
      "This page is generated from the table in `horo/base/environment.cpp` (`hororun settings "
      "--markdown`).\n\n"
      "| Variable | Default | Accepts | Same on all ranks | Meaning |\n|---|---|---|---|---|\n";
  for (const SettingInfo& info : table())
    text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", info.name, info.default_value,
                        info.accepts, info.same_on_all_ranks ? "same" : "may differ", info.meaning);
  return text;
}

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
