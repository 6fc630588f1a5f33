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

/// The number of an agreed request in the response cache, or 0 for a request that is not cached.
using CacheId = std::uint32_t;

/// An operation on which the ranks have agreed, as one rank stores it.
struct Agreed {
  Request request;  ///< the request of this rank
  /// For an allgather, the first dimension of each rank's input. For an alltoall, the splits of
  /// every rank, one rank after the other. Otherwise empty.
  std::vector<std::uint64_t> rows_of;

  /// Returns the part of rows_of that belongs to `rank`. Only for an allgather or alltoall.
  std::span<const std::uint64_t> rows_from(int rank) const;
};

/// Stores requests on which the ranks have agreed, so that a rank can send a repeated request as a
/// number. Ranks that have executed the same response messages have the same names and numbers,
/// because only the execution of a response message changes them. Used by one thread at a time.
class ResponseCache {
 public:
  /// The maximum length of Agreed::rows_of. Operations with a longer list are not cached, because
  /// the list of an alltoall grows with the square of the number of ranks.
  static constexpr std::size_t kMostRows = 4096;

  /// `capacity` is the maximum number of entries. 0 disables the cache.
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  /// Returns the number of the entry whose request equals `request`, if there is one.
  std::optional<CacheId> find(const Request& request) const;
  /// Returns whether there is an entry with this number that has not been evicted.
  bool is_live(CacheId id) const { return by_id_.contains(id); }
  /// Returns the agreed operation of a number. Also finds entries that were evicted, until retire()
  /// deletes them. Throws CommunicationError if there is no such entry.
  const std::shared_ptr<const Agreed>& at(CacheId id) const;

  /// Records that the ranks have agreed on `request` of this rank and on `rows_of`, in response
  /// message number `message`. Inserts an entry, or makes an equal entry the most recently used.
  /// Evicts an entry of the same name with another request or other rows. If the cache then exceeds
  /// its capacity, evicts the least recently used entry. Does not insert an entry if `rows_of` has
  /// more than kMostRows numbers.
  void note(const Request& request, std::vector<std::uint64_t> rows_of, std::uint64_t message);
  /// Deletes entries that were evicted by messages up to number `message`. All ranks that still
  /// send cache numbers to this rank must have executed those messages.
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
