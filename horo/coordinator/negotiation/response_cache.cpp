#include "horo/coordinator/negotiation/response_cache.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::coordinator {

std::span<const std::uint64_t> Agreed::rows_from(int rank) const {
  const std::size_t each = request.kind == Kind::kAlltoall ? request.splits.size() : 1;
  return std::span(rows_of).subspan(static_cast<std::size_t>(rank) * each, each);
}

// Compares the whole request, because the receivers of a number take the request from their caches.
std::optional<CacheId> ResponseCache::find(const Request& request) const {
  const auto found = by_name_.find(request.name);
  if (found == by_name_.end() || !(found->second->agreed->request == request)) return std::nullopt;
  return found->second->id;
}

const std::shared_ptr<const Agreed>& ResponseCache::at(CacheId id) const {
  if (const auto found = by_id_.find(id); found != by_id_.end()) return found->second->agreed;
  if (const auto found = evicted_by_id_.find(id); found != evicted_by_id_.end())
    return found->second;
  throw CommunicationError(
      fmt::format("a control message refers to the unknown cache number {}", id));
}

// Every rank calls this function for the same operations in the same order and makes the same
// decisions, so the numbers stay equal. The requests of the ranks agree. If only some ranks have
// changed their requests, they have changed only their rows. In that case, `rows_of` has changed on
// all ranks, so all ranks replace the entry.
void ResponseCache::note(const Request& request, std::vector<std::uint64_t> rows_of,
                         std::uint64_t message) {
  if (capacity_ == 0) return;
  if (const auto found = by_name_.find(request.name); found != by_name_.end()) {
    const Agreed& known = *found->second->agreed;
    if (known.request == request && known.rows_of == rows_of) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return;
    }
    evict(found->second, message);
  }
  if (rows_of.size() > kMostRows) return;
  if (++last_id_ == 0) ++last_id_;  // 0 means none
  entries_.push_front(
      {std::make_shared<const Agreed>(Agreed{request, std::move(rows_of)}), last_id_});
  by_name_[request.name] = entries_.begin();
  by_id_[last_id_] = entries_.begin();
  if (entries_.size() > capacity_) evict(std::prev(entries_.end()), message);
}

// Keeps the entry for at() until retire(), because another rank may have sent the number before
// that rank executed the eviction.
void ResponseCache::evict(Entries::iterator entry, std::uint64_t message) {
  by_name_.erase(entry->agreed->request.name);
  by_id_.erase(entry->id);
  evicted_.push_back({message, entry->id});
  evicted_by_id_[entry->id] = std::move(entry->agreed);
  entries_.erase(entry);
}

void ResponseCache::retire(std::uint64_t message) {
  for (; !evicted_.empty() && evicted_.front().message <= message; evicted_.pop_front())
    evicted_by_id_.erase(evicted_.front().id);
}

}  // namespace horo::coordinator
