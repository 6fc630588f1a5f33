#include "horo/coordinator/negotiation/readiness_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

bool needs_everyone(Kind kind) { return kind == Kind::kJoin || kind == Kind::kShutdown; }

}  // namespace

ReadinessTable::ReadinessTable(std::vector<std::vector<int>> ranks_of)
    : ranks_of_(std::move(ranks_of)) {
  for (const std::vector<int>& ranks : ranks_of_) live_.push_back(ranks.size());
}

ReadinessTable::PendingOperations::iterator ReadinessTable::find_or_add(const std::string& name,
                                                                        Time now) {
  auto [it, is_new] = pending_.try_emplace(name);
  if (is_new) {
    PendingOperation& operation = it->second;
    operation.has_submitted.resize(ranks_of_.size());
    operation.missing = ranks_of_.size();
    operation.number = ++operations_seen_;
    operation.by_age = append(by_age_, &*it);
    set_since(*it, now);
    if (!shutdowns_.empty()) may_have_unsatisfiable_ = true;
  }
  return it;
}

// Appends `operation` to `list`. Takes the list node from spare_ if possible, so in the steady
// state the lists allocate no memory.
ReadinessTable::OperationList::iterator ReadinessTable::append(
    OperationList& list, PendingOperations::value_type* operation) {
  if (spare_.empty()) return list.insert(list.end(), operation);
  spare_.back() = operation;
  list.splice(list.end(), spare_, std::prev(spare_.end()));
  return std::prev(list.end());
}

// Keeps by_age_ sorted. Searches from the end, because usually no other operation has a later time.
// Only a report of a child can set an earlier time.
void ReadinessTable::set_since(PendingOperations::value_type& operation, Time since) {
  operation.second.since = since;
  by_age_.splice(by_age_.end(), by_age_, operation.second.by_age);
  auto place = operation.second.by_age;
  while (place != by_age_.begin() && (*std::prev(place))->second.since > since) --place;
  by_age_.splice(place, by_age_, operation.second.by_age);
}

void ReadinessTable::note_arrival(PendingOperations::value_type& operation, Time now) {
  operation.second.latest = now;
  if (operation.second.recent)
    recent_.splice(recent_.end(), recent_, *operation.second.recent);
  else
    operation.second.recent = append(recent_, &operation);
}

void ReadinessTable::erase(PendingOperations::iterator it) {
  spare_.splice(spare_.end(), by_age_, it->second.by_age);
  if (it->second.recent) spare_.splice(spare_.end(), recent_, *it->second.recent);
  pending_.erase(it);
}

// Without children, every operation is complete at once and the table stays empty. With children,
// merges contributions as they arrive, so the table does not store a request for each rank.
void ReadinessTable::add(std::size_t contributor, Contribution contribution, Time now) {
  if (ranks_of_.size() == 1) return complete_.push_back(std::move(contribution));
  const auto it = find_or_add(contribution.name(), now);
  PendingOperation& operation = it->second;
  if (operation.has_submitted[contributor])
    throw CommunicationError(
        fmt::format("rank {} submitted '{}' twice", ranks_of_[contributor].front(), it->first));
  operation.has_submitted[contributor] = true;
  --operation.missing;
  note_arrival(*it, now);
  const std::vector<int>& ranks = ranks_of_[contributor];
  if (operation.merged)
    merge(*operation.merged, operation.ranks, std::move(contribution), ranks);
  else
    operation.merged = std::move(contribution);
  if (operation.missing > 0) {
    operation.ranks.insert(operation.ranks.end(), ranks.begin(), ranks.end());
    std::ranges::sort(operation.ranks);
  }
  // The contributor has submitted the operation, so a later operation of the same name is a new
  // operation. A rank that has shut down cannot submit the new operation. Therefore the name must
  // not stay in the list of its open operations.
  for (ShutdownEntry& entry : shutdowns_)
    if (entry.contributor == contributor) std::erase(entry.shutdown.open, it->first);
  if (is_complete(operation)) complete(it);
}

// Returns whether `operation` waits for `contributor`. Only joins and shutdowns wait for a
// contributor whose ranks have all joined.
bool ReadinessTable::needs(const PendingOperation& operation, std::size_t contributor) const {
  if (operation.has_submitted[contributor]) return false;
  return live_[contributor] > 0 ||
         (operation.merged && needs_everyone(operation.merged->request().kind));
}

bool ReadinessTable::is_complete(const PendingOperation& operation) const {
  if (operation.missing == 0) return true;
  if (joined_.empty() || !operation.merged) return false;
  for (std::size_t c = 0; c < ranks_of_.size(); ++c)
    if (needs(operation, c)) return false;
  return true;
}

void ReadinessTable::complete(PendingOperations::iterator it) {
  PendingOperation& operation = it->second;
  for (std::size_t c = 0; operation.missing > 0 && c < ranks_of_.size(); ++c)
    if (!operation.has_submitted[c])
      std::ranges::copy(ranks_of_[c], std::back_inserter(operation.merged->absent));
  std::ranges::sort(operation.merged->absent);
  complete_.push_back(std::move(*operation.merged));
  erase(it);
}

std::vector<Contribution> ReadinessTable::take_complete() { return std::exchange(complete_, {}); }

// Completes operations that waited only for the ranks that join, in the order in which they were
// added to the table.
void ReadinessTable::join(std::size_t contributor, const std::vector<int>& ranks) {
  for (const int rank : ranks)
    if (joined_.insert(rank).second) --live_[contributor];
  if (live_[contributor] > 0) return;
  std::vector<std::pair<std::uint64_t, std::string>> ready;  // number and name
  for (const auto& [name, operation] : pending_)
    if (is_complete(operation)) ready.emplace_back(operation.number, name);
  std::ranges::sort(ready);
  for (const auto& [number, name] : ready) complete(pending_.find(name));
}

void ReadinessTable::end_join() {
  joined_.clear();
  for (std::size_t c = 0; c < ranks_of_.size(); ++c) live_[c] = ranks_of_[c].size();
}

void ReadinessTable::refresh_join(Time now) {
  if (joined_.empty()) return;
  const auto operation = pending_.find(std::string(kJoinName));
  if (operation != pending_.end()) set_since(*operation, now);
}

void ReadinessTable::remove(const std::string& name) {
  if (const auto operation = pending_.find(name); operation != pending_.end()) erase(operation);
}

void ReadinessTable::shut_down(std::size_t contributor, RankShutdown shutdown) {
  shutdowns_.push_back({contributor, std::move(shutdown)});
  may_have_unsatisfiable_ = true;
}

std::vector<RankShutdown> ReadinessTable::take_shutdowns() {
  std::vector<RankShutdown> taken;
  for (ShutdownEntry& entry : shutdowns_) {
    if (!entry.is_new) continue;
    entry.is_new = false;
    taken.push_back(entry.shutdown);
    for (const auto& [name, operation] : pending_)
      if (operation.has_submitted[entry.contributor]) taken.back().open.push_back(name);
  }
  return taken;
}

// Returns the shutdown because of which an operation can never be complete, or null. A rank submits
// nothing after its shutdown. Therefore an operation can never be complete if the contribution of
// the rank's subtree is missing and the rank had not submitted the operation before its shutdown.
const ReadinessTable::ShutdownEntry* ReadinessTable::find_blocking_shutdown(
    const std::string& name, const PendingOperation& operation) const {
  if (name == kShutdownName) return nullptr;
  for (const ShutdownEntry& entry : shutdowns_) {
    if (operation.has_submitted[entry.contributor]) continue;
    // If the operation is in `open`, the rank had submitted the operation, and other ranks of the
    // subtree may still submit it.
    if (std::ranges::find(entry.shutdown.open, name) == entry.shutdown.open.end()) return &entry;
  }
  return nullptr;
}

std::vector<UnsatisfiableOperation> ReadinessTable::take_unsatisfiable() {
  std::vector<UnsatisfiableOperation> unsatisfiable;
  if (!std::exchange(may_have_unsatisfiable_, false)) return unsatisfiable;
  for (auto& [name, operation] : pending_) {
    if (operation.is_unsatisfiable) continue;
    const ShutdownEntry* entry = find_blocking_shutdown(name, operation);
    if (entry == nullptr) continue;
    operation.is_unsatisfiable = true;
    unsatisfiable.push_back({name, entry->shutdown.rank, entry->shutdown.operations});
  }
  std::ranges::sort(unsatisfiable, {}, &UnsatisfiableOperation::name);
  return unsatisfiable;
}

// A report contains the age of the wait and not the start time, because the clocks of hosts differ.
// Ignores the missing ranks of the report if the contribution has arrived.
void ReadinessTable::report(std::size_t contributor, const Waiting& waiting, Time now) {
  const auto it = find_or_add(waiting.name, now - waiting.age);
  if (!it->second.has_submitted[contributor]) it->second.reports[contributor] = waiting.missing;
}

// Returns the ranks for which an operation waits. If a contributor that is missing has sent no
// report, assumes that all its ranks are missing. In that case, leaves out joined ranks, unless the
// operation is a join or a shutdown, because other operations do not wait for joined ranks.
std::vector<int> ReadinessTable::missing_ranks(const PendingOperation& operation) const {
  std::vector<int> missing;
  for (std::size_t c = 0; c < ranks_of_.size(); ++c) {
    if (!needs(operation, c)) continue;
    const auto reported = operation.reports.find(c);
    if (reported != operation.reports.end()) {
      std::ranges::copy(reported->second, std::back_inserter(missing));
      continue;
    }
    const bool counts_joined = operation.merged && needs_everyone(operation.merged->request().kind);
    for (const int rank : ranks_of_[c])
      if (counts_joined || !joined_.contains(rank)) missing.push_back(rank);
  }
  std::ranges::sort(missing);
  return missing;
}

std::vector<Waiting> ReadinessTable::waiting_longer_than(std::chrono::nanoseconds age, Time now,
                                                         std::size_t most) const {
  std::vector<Waiting> found;
  for (const auto* item : by_age_) {
    const auto& [name, operation] = *item;
    if (found.size() == most || now - operation.since < age) break;
    found.push_back({name, now - operation.since, missing_ranks(operation)});
  }
  return found;
}

// Removes operations from the front only, because recent_ is sorted by the time of the latest
// contribution.
std::size_t ReadinessTable::under_way(std::chrono::nanoseconds recent, Time now) {
  while (!recent_.empty() && now - recent_.front()->second.latest >= recent) {
    recent_.front()->second.recent.reset();
    spare_.splice(spare_.end(), recent_, recent_.begin());
  }
  return recent_.size();
}

}  // namespace horo::coordinator
