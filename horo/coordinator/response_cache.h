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

#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// Number of an agreed request in the response cache. 0: none.
using CacheId = std::uint32_t;

/// What the ranks once agreed on, as one of them sees it.
struct Agreed {
  Request request;  ///< this rank's
  /// Allgather: the first dimension of each rank's input. Alltoall: the splits of every rank, one
  /// rank after the other.
  std::vector<std::uint64_t> rows_of;

  /// What of rows_of is `rank`'s.
  std::span<const std::uint64_t> rows_from(int rank) const;
};

/// What the ranks have agreed on before, so that a request can travel as a number. Every rank holds
/// the same names and numbers: they change only while response messages, which all ranks receive in
/// the same order, are taken in. Called only from the coordinator thread.
class ResponseCache {
 public:
  /// Longer lists of rows are not kept: an alltoall's grow with the square of the ranks.
  static constexpr std::size_t kMostRows = 4096;

  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  /// The number of a request equal to `request`, if it is cached.
  std::optional<CacheId> find(const Request& request) const;
  /// Whether the number has not been evicted.
  bool is_live(CacheId id) const { return by_id_.contains(id); }
  /// What is behind a number; also for entries evicted not longer ago than retire() allows. Throws
  /// CommunicationError if the number was never given or is long gone.
  const std::shared_ptr<const Agreed>& at(CacheId id) const;

  /// Notes that `request` (this rank's own) was agreed in response message `message`, with
  /// `rows_of`: inserts it, or makes it the most recently used; replaces an entry of the same name
  /// that differs, on this rank or on another; evicts the least recently used one beyond the
  /// capacity.
  void note(const Request& request, std::vector<std::uint64_t> rows_of, std::uint64_t message);
  /// Forgets entries evicted by messages up to `message`: whoever sends numbers here has taken
  /// those in and no longer uses them.
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
