#include "horo/coordinator/stall_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "horo/base/log.h"
#include "horo/base/quantity.h"

namespace horo::coordinator {
namespace {

constexpr std::size_t kMostReports = 8;

}  // namespace

std::string quote_operation(std::string_view name, const Topology& topology) {
  if (!topology.is_subset()) return fmt::format("'{}'", name);
  return fmt::format("'{}' of process set {}", name, topology.set_name());
}

StallWatch::StallWatch(const Topology& topology, const Settings& settings, const WaitPolicy& policy)
    : topology_(topology), settings_(settings), policy_(policy) {}

std::optional<StallWatch::Expired> StallWatch::warn(const Negotiator& negotiator,
                                                    Negotiator::Time now) {
  const auto age = std::min(settings_.stall_warning, settings_.timeout);
  const bool is_watched = policy_.abort != nullptr && policy_.abort->is_watched(now);
  std::optional<Expired> expired;
  for (const Waiting& waiting : negotiator.waiting_longer_than(age, now, kMostReports)) {
    // Members may leave a process set as far apart as they like; nobody waits for it.
    if (topology_.is_subset() && waiting.name == kShutdownName) continue;
    std::vector<std::string> missing;
    for (const int rank : waiting.missing) missing.push_back(topology_.describe(rank));
    const std::string text =
        fmt::format("{} has waited {} for {}", quote_operation(waiting.name, topology_),
                    format_duration(waiting.age), fmt::join(missing, ", "));
    if (policy_.time_since(now - waiting.age, now) >= settings_.timeout + policy_.grace) {
      expired = {waiting.name, text + fmt::format(" to submit it (HORO_TIMEOUT is {})",
                                                  format_duration(settings_.timeout))};
      break;
    }
    if (is_watched) continue;
    Negotiator::Time& warned = warned_[waiting.name];
    if (now - warned < settings_.stall_warning) continue;
    warned = now;
    log_warning("{} to submit it", text);
  }
  std::erase_if(warned_,
                [&](const auto& item) { return now - item.second > 2 * settings_.stall_warning; });
  return expired;
}

std::vector<Waiting> StallWatch::news(const Negotiator& negotiator, Negotiator::Time now) {
  const auto age = std::min(settings_.stall_warning, settings_.timeout) / 4;
  std::vector<Waiting> oldest = negotiator.waiting_longer_than(age, now, kMostReports);
  std::unordered_map<std::string, std::vector<int>> current;
  std::vector<Waiting> news;
  for (Waiting& waiting : oldest) {
    current[waiting.name] = waiting.missing;
    const auto before = reported_.find(waiting.name);
    if (before == reported_.end() || before->second != waiting.missing)
      news.push_back(std::move(waiting));
  }
  reported_ = std::move(current);
  return news;
}

}  // namespace horo::coordinator
