#include "horo/coordinator/response_cache.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::coordinator {

std::optional<CacheId> ResponseCache::find(const Request& request) const {
  const auto found = by_name_.find(request.name);
  if (found == by_name_.end() || !(found->second->request == request)) return std::nullopt;
  return found->second->id;
}

const Request& ResponseCache::at(CacheId id) const {
  if (const auto found = by_id_.find(id); found != by_id_.end()) return found->second->request;
  for (const Evicted& evicted : evicted_)
    if (evicted.entry.id == id) return evicted.entry.request;
  throw CommunicationError(fmt::format("a control message uses the unknown number {}", id));
}

void ResponseCache::note(const Request& request, std::uint64_t message) {
  if (capacity_ == 0) return;
  if (const auto found = by_name_.find(request.name); found != by_name_.end()) {
    if (found->second->request == request) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return;
    }
    evict(found->second, message);
  }
  if (++last_id_ == 0) ++last_id_;  // 0 means none
  entries_.push_front({request, last_id_});
  by_name_[request.name] = entries_.begin();
  by_id_[last_id_] = entries_.begin();
  if (entries_.size() > capacity_) evict(std::prev(entries_.end()), message);
}

void ResponseCache::evict(Entries::iterator entry, std::uint64_t message) {
  by_name_.erase(entry->request.name);
  by_id_.erase(entry->id);
  evicted_.push_back({message, std::move(*entry)});
  entries_.erase(entry);
}

void ResponseCache::retire(std::uint64_t message) {
  while (!evicted_.empty() && evicted_.front().message <= message) evicted_.pop_front();
}

}  // namespace horo::coordinator
