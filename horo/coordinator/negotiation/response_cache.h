#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "horo/coordinator/negotiation/request.h"

namespace horo::coordinator {

/// The number of an agreed request in the response cache. 0 if the request is not cached.
using CacheId = std::uint32_t;

/// An operation on which the ranks have agreed, as one rank stores it.
struct Agreed {
  Request request;  ///< the request of this rank
  /// For an allgather, the first dimension of each rank's input. For an alltoall, the splits of
  /// every rank, one rank after the other.
  std::vector<std::uint64_t> rows_of;

  /// Returns the part of rows_of that belongs to `rank`.
  std::span<const std::uint64_t> rows_from(int rank) const;
};

/// Stores requests on which the ranks have agreed, so that a rank can send a repeated request as a
/// number. All ranks store the same names and numbers. The names and numbers change only when a
/// rank executes a response message, and all ranks receive the same messages in the same order.
/// Used by one thread at a time.
class ResponseCache {
 public:
  /// The maximum length of Agreed::rows_of. Operations with a longer list are not cached, because
  /// the list of an alltoall grows with the square of the number of ranks.
  static constexpr std::size_t kMostRows = 4096;

  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  /// Returns the number of the cached request that equals `request`, if there is one.
  std::optional<CacheId> find(const Request& request) const;
  /// Returns whether the number is in the cache and has not been evicted.
  bool is_live(CacheId id) const { return by_id_.contains(id); }
  /// Returns the agreed operation of a number. The number may have been evicted, but not retired.
  /// Throws CommunicationError if the number is unknown.
  const std::shared_ptr<const Agreed>& at(CacheId id) const;

  /// Records that the ranks have agreed on `request` of this rank and on `rows_of`, in response
  /// message number `message`. Inserts an entry, or makes an equal entry the most recently used.
  /// Replaces an entry of the same name if the request of any rank differs. If the cache exceeds
  /// its capacity, evicts the least recently used entry.
  void note(const Request& request, std::vector<std::uint64_t> rows_of, std::uint64_t message);
  /// Deletes entries that were evicted by messages up to number `message`. All ranks that send
  /// cache numbers to this rank must have executed those messages.
  void retire(std::uint64_t message);

  std::size_t size() const { return by_name_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const Agreed> agreed;
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
    CacheId id;
  };
  std::deque<Evicted> evicted_;  // oldest first
  std::unordered_map<CacheId, std::shared_ptr<const Agreed>> evicted_by_id_;
};

}  // namespace horo::coordinator
