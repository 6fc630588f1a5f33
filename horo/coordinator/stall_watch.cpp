#include "horo/coordinator/stall_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "horo/base/text/quantity.h"

namespace horo::coordinator {
namespace {

// The maximum number of operations that one call of check() or changes() considers.
constexpr std::size_t kMostReports = 8;

}  // namespace

std::string quote_operation(std::string_view name, const Topology& topology) {
  if (!topology.is_subset()) return fmt::format("'{}'", name);
  return fmt::format("'{}' of process set {}", name, topology.set_name());
}

StallWatch::StallWatch(const Topology& topology, const Settings& settings, const WaitPolicy& policy,
                       observe::LongWaits* long_waits)
    : topology_(topology), settings_(settings), policy_(policy), long_waits_(long_waits) {}

// Notes the waits in every call, because a note is valid only for LongWaits::kValidFor. The timeout
// includes WaitPolicy::grace, so that the watchdog can abort the job first. The watchdog's text is
// preferable, because that text usually also states what the missing ranks do.
std::optional<StallWatch::Expired> StallWatch::check(const ReadinessTable& table,
                                                     ReadinessTable::Time now) {
  const auto age = std::min(settings_.stall_warning, settings_.timeout);
  for (const Waiting& waiting : table.waiting_longer_than(age, now, kMostReports)) {
    // The members of a process set may close it at different times, so a wait for their shutdown
    // is not a stall.
    if (topology_.is_subset() && waiting.name == kShutdownName) continue;
    std::vector<std::string> missing;
    for (const int rank : waiting.missing) missing.push_back(topology_.describe(rank));
    const std::string name = quote_operation(waiting.name, topology_);
    std::string text = fmt::format("{} has waited {} for {} to submit it", name,
                                   format_duration(waiting.age), fmt::join(missing, ", "));
    if (policy_.has_timed_out(now - waiting.age, now))
      return Expired{waiting.name, with_timeout(text, policy_.timeout)};
    if (long_waits_ != nullptr) long_waits_->note(name, waiting.age, std::move(text), now);
  }
  return std::nullopt;
}

// Returns only changes, so a stall does not cost a message in every call.
std::vector<Waiting> StallWatch::changes(const ReadinessTable& table, ReadinessTable::Time now) {
  const auto age = std::min(settings_.stall_warning, settings_.timeout) / 4;
  std::vector<Waiting> oldest = table.waiting_longer_than(age, now, kMostReports);
  std::unordered_map<std::string, std::vector<int>> current;
  std::vector<Waiting> changes;
  for (Waiting& waiting : oldest) {
    current[waiting.name] = waiting.missing;
    const auto before = reported_.find(waiting.name);
    if (before == reported_.end() || before->second != waiting.missing)
      changes.push_back(std::move(waiting));
  }
  reported_ = std::move(current);
  return changes;
}

}  // namespace horo::coordinator
