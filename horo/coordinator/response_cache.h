#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "horo/coordinator/request.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// What the ranks have agreed on before, so that a request can travel as a number. Every rank holds
/// the same cache: it changes only while response messages, which all ranks receive in the same
/// order, are taken in. Called only from the coordinator thread.
class ResponseCache {
 public:
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  /// The number of a request equal to `request`, if it is cached.
  std::optional<CacheId> find(const Request& request) const;
  /// The request behind a number; also for entries evicted not longer ago than retire() allows.
  /// Throws CommunicationError if the number was never given or is long gone.
  const Request& at(CacheId id) const;

  /// Notes that `request` was agreed in response message `message`: inserts it, or makes it the
  /// most recently used; replaces an entry of the same name that differs; evicts the least recently
  /// used one beyond the capacity.
  void note(const Request& request, std::uint64_t message);
  /// Forgets entries evicted by messages up to `message`: every rank has taken those in and no
  /// longer uses their numbers.
  void retire(std::uint64_t message);

  std::size_t size() const { return by_name_.size(); }

 private:
  struct Entry {
    Request request;
    CacheId id;
  };
  using Entries = std::list<Entry>;  // most recently used first

  void evict(Entries::iterator entry, std::uint64_t message);

  std::size_t capacity_;
  CacheId last_id_ = 0;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_name_;
  std::unordered_map<CacheId, Entries::iterator> by_id_;
  struct Evicted {
    std::uint64_t message;
    Entry entry;
  };
  std::deque<Evicted> evicted_;  // oldest first
};

}  // namespace horo::coordinator
