#include "horo/coordinator/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

bool needs_everyone(Kind kind) { return kind == Kind::kJoin || kind == Kind::kShutdown; }

}  // namespace

Negotiator::Negotiator(std::vector<std::vector<int>> ranks_of) : ranks_of_(std::move(ranks_of)) {
  for (const std::vector<int>& ranks : ranks_of_) live_.push_back(ranks.size());
}

Negotiator::Book::iterator Negotiator::page_of(const std::string& name, Time now) {
  auto [it, is_new] = book_.try_emplace(name);
  if (is_new) {
    Page& page = it->second;
    page.has_come.resize(ranks_of_.size());
    page.missing = ranks_of_.size();
    page.number = ++pages_;
    page.by_age = by_age_.insert(by_age_.end(), &*it);
    set_since(*it, now);
    if (!departed_.empty()) orphans_possible_ = true;
  }
  return it;
}

// Nearly always the latest one: only what a child reports is older than what is known here.
void Negotiator::set_since(Book::value_type& page, Time since) {
  page.second.since = since;
  by_age_.splice(by_age_.end(), by_age_, page.second.by_age);
  auto place = page.second.by_age;
  while (place != by_age_.begin() && (*std::prev(place))->second.since > since) --place;
  by_age_.splice(place, by_age_, page.second.by_age);
}

void Negotiator::note_arrival(Book::value_type& page, Time now) {
  page.second.latest = now;
  if (page.second.recent)
    recent_.splice(recent_.end(), recent_, *page.second.recent);
  else
    page.second.recent = recent_.insert(recent_.end(), &page);
}

void Negotiator::erase(Book::iterator it) {
  by_age_.erase(it->second.by_age);
  if (it->second.recent) recent_.erase(*it->second.recent);
  book_.erase(it);
}

void Negotiator::add(std::size_t contributor, Contribution contribution, Time now) {
  if (ranks_of_.size() == 1) return complete_.push_back(std::move(contribution));
  const auto it = page_of(contribution.name(), now);
  Page& page = it->second;
  if (page.has_come[contributor])
    throw CommunicationError(
        fmt::format("rank {} submitted '{}' twice", ranks_of_[contributor].front(), it->first));
  page.has_come[contributor] = true;
  --page.missing;
  note_arrival(*it, now);
  const std::vector<int>& ranks = ranks_of_[contributor];
  if (page.merged)
    merge(*page.merged, page.ranks, std::move(contribution), ranks);
  else
    page.merged = std::move(contribution);
  if (page.missing > 0) {
    page.ranks.insert(page.ranks.end(), ranks.begin(), ranks.end());
    std::ranges::sort(page.ranks);
  }
  for (Departed& departed : departed_)
    if (departed.contributor == contributor) std::erase(departed.departure.open, it->first);
  if (is_complete(page)) complete(it);
}

bool Negotiator::needs(const Page& page, std::size_t contributor) const {
  if (page.has_come[contributor]) return false;
  return live_[contributor] > 0 || (page.merged && needs_everyone(page.merged->request().kind));
}

bool Negotiator::is_complete(const Page& page) const {
  if (page.missing == 0) return true;
  if (joined_.empty() || !page.merged) return false;
  for (std::size_t c = 0; c < ranks_of_.size(); ++c)
    if (needs(page, c)) return false;
  return true;
}

void Negotiator::complete(Book::iterator it) {
  Page& page = it->second;
  for (std::size_t c = 0; page.missing > 0 && c < ranks_of_.size(); ++c)
    if (!page.has_come[c]) std::ranges::copy(ranks_of_[c], std::back_inserter(page.merged->absent));
  std::ranges::sort(page.merged->absent);
  complete_.push_back(std::move(*page.merged));
  erase(it);
}

std::vector<Contribution> Negotiator::take_complete() { return std::exchange(complete_, {}); }

void Negotiator::join(std::size_t contributor, const std::vector<int>& ranks) {
  for (const int rank : ranks)
    if (joined_.insert(rank).second) --live_[contributor];
  if (live_[contributor] > 0) return;
  std::vector<std::pair<std::uint64_t, std::string>> ready;  // in the order of their pages
  for (const auto& [name, page] : book_)
    if (is_complete(page)) ready.emplace_back(page.number, name);
  std::ranges::sort(ready);
  for (const auto& [number, name] : ready) complete(book_.find(name));
}

void Negotiator::end_join() {
  joined_.clear();
  for (std::size_t c = 0; c < ranks_of_.size(); ++c) live_[c] = ranks_of_[c].size();
}

void Negotiator::refresh_join(Time now) {
  if (joined_.empty()) return;
  const auto page = book_.find(std::string(kJoinName));
  if (page != book_.end()) set_since(*page, now);
}

void Negotiator::remove(const std::string& name) {
  if (const auto page = book_.find(name); page != book_.end()) erase(page);
}

void Negotiator::depart(std::size_t contributor, Departure departure) {
  departed_.push_back({contributor, std::move(departure)});
  orphans_possible_ = true;
}

std::vector<Departure> Negotiator::take_departures() {
  std::vector<Departure> taken;
  for (Departed& departed : departed_) {
    if (!departed.is_new) continue;
    departed.is_new = false;
    taken.push_back(departed.departure);
    for (const auto& [name, page] : book_)
      if (page.has_come[departed.contributor]) taken.back().open.push_back(name);
  }
  return taken;
}

const Negotiator::Departed* Negotiator::find_orphaning(const std::string& name,
                                                       const Page& page) const {
  if (name == kShutdownName) return nullptr;
  for (const Departed& departed : departed_) {
    if (page.has_come[departed.contributor]) continue;
    // What a rank's subtree still waits for may come, if the rank itself had submitted it.
    if (std::ranges::find(departed.departure.open, name) == departed.departure.open.end())
      return &departed;
  }
  return nullptr;
}

std::vector<Orphan> Negotiator::take_orphans() {
  std::vector<Orphan> orphans;
  if (!std::exchange(orphans_possible_, false)) return orphans;
  for (auto& [name, page] : book_) {
    if (page.is_orphan) continue;
    const Departed* departed = find_orphaning(name, page);
    if (departed == nullptr) continue;
    page.is_orphan = true;
    orphans.push_back({name, departed->departure.rank, departed->departure.operations});
  }
  std::ranges::sort(orphans, {}, &Orphan::name);
  return orphans;
}

void Negotiator::report(std::size_t contributor, const Waiting& waiting, Time now) {
  const auto it = page_of(waiting.name, now - waiting.age);
  if (!it->second.has_come[contributor]) it->second.reports[contributor] = waiting.missing;
}

std::vector<int> Negotiator::missing_ranks(const Page& page) const {
  std::vector<int> missing;
  for (std::size_t c = 0; c < ranks_of_.size(); ++c) {
    if (!needs(page, c)) continue;
    const auto reported = page.reports.find(c);
    if (reported != page.reports.end()) {
      std::ranges::copy(reported->second, std::back_inserter(missing));
      continue;
    }
    const bool counts_joined = page.merged && needs_everyone(page.merged->request().kind);
    for (const int rank : ranks_of_[c])
      if (counts_joined || !joined_.contains(rank)) missing.push_back(rank);
  }
  std::ranges::sort(missing);
  return missing;
}

std::vector<Waiting> Negotiator::waiting_longer_than(std::chrono::nanoseconds age, Time now,
                                                     std::size_t most) const {
  std::vector<Waiting> found;
  for (const auto* item : by_age_) {
    const auto& [name, page] = *item;
    if (found.size() == most || now - page.since < age) break;
    found.push_back({name, now - page.since, missing_ranks(page)});
  }
  return found;
}

std::size_t Negotiator::under_way(std::chrono::nanoseconds recent, Time now) {
  while (!recent_.empty() && now - recent_.front()->second.latest >= recent) {
    recent_.front()->second.recent.reset();
    recent_.pop_front();
  }
  return recent_.size();
}

}  // namespace horo::coordinator
