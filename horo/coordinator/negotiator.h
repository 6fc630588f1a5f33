#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// An operation that every rank has submitted. If the ranks disagree, `mismatch` says how.
struct Agreement {
  std::vector<Request> requests;  ///< requests[r]: rank r's
  std::string mismatch;
};

/// An operation that some ranks have submitted and others have not.
struct Waiting {
  std::string name;
  std::chrono::nanoseconds age{};
  std::vector<int> missing;
};

/// Rank 0's book of who has submitted what. Pure bookkeeping: no messages, no clock of its own.
/// Called only from the coordinator thread.
class Negotiator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `topology` outlives this.
  explicit Negotiator(const Topology& topology) : topology_(topology) {}

  /// Notes that `rank` submitted `request` at `now`. Returns the agreement if it was the last rank
  /// to do so. Throws CommunicationError if the rank had already submitted that name.
  std::optional<Agreement> add(int rank, Request request, Time now);

  /// Operations older than `age` at `now`, oldest first.
  std::vector<Waiting> waiting_longer_than(std::chrono::nanoseconds age, Time now) const;
  /// Operations that can never be complete because a rank that has not submitted them has shut
  /// down, with that rank. They are removed from the book.
  struct Orphan {
    std::string name;
    int departed = 0;
  };
  std::vector<Orphan> take_orphans();

  bool is_empty() const { return book_.empty(); }

 private:
  struct Page {
    std::vector<std::optional<Request>> requests;
    int submitted = 0;
    Time since;
    std::uint64_t number = 0;
  };
  std::string find_mismatch(const std::vector<Request>& requests) const;

  const Topology& topology_;
  std::unordered_map<std::string, Page> book_;
  std::vector<int> departed_;
  bool orphans_possible_ = false;
  std::uint64_t pages_ = 0;
};

/// "tensor 'x': rank 0 (host a) submitted ..., rank 1 (host b) submitted ...: the shapes differ",
/// or empty if the two agree. `first` and `second` name the ranks.
std::string describe_mismatch(const Request& a, const std::string& first, const Request& b,
                              const std::string& second);

}  // namespace horo::coordinator
