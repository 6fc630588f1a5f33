#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "horo/coordinator/negotiation/contribution.h"

namespace horo::coordinator {

/// An operation that some ranks have submitted and others have not.
struct Waiting {
  std::string name;
  /// The time since the table first recorded the operation.
  std::chrono::nanoseconds age{};
  std::vector<int> missing;  ///< the ranks that have not submitted the operation, ascending
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

/// A rank that has shut down.
struct RankShutdown {
  int rank = 0;
  std::uint64_t operations = 0;  ///< number of operations that the rank had completed
  /// The names of incomplete operations that the rank had submitted.
  std::vector<std::string> open;
  friend bool operator==(const RankShutdown&, const RankShutdown&) = default;
};

/// An operation that can never be complete, because `rank` has shut down without submitting it. For
/// `operations`, see RankShutdown.
struct UnsatisfiableOperation {
  std::string name;
  int rank = 0;
  std::uint64_t operations = 0;
  friend bool operator==(const UnsatisfiableOperation&, const UnsatisfiableOperation&) = default;
};

/// Records which contributors have submitted which operations. The contributors are the parts of a
/// rank's subtree of the control tree. Contributor 0 is the rank itself. Contributor 1 + c is the
/// subtree of child c. Sends no messages and reads no clock. Used by one thread at a time.
///
/// Operations are independent. An operation is complete when its last contribution has arrived or
/// the missing ranks have joined, even if other operations are incomplete. So ranks may submit
/// operations in different orders, and two pending operations cannot block each other.
class ReadinessTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// ranks_of[c] contains the ranks of contributor c in ascending order.
  explicit ReadinessTable(std::vector<std::vector<int>> ranks_of);

  /// Adds the contribution of `contributor`. Throws CommunicationError if the contributor has
  /// already submitted the same pending operation.
  void add(std::size_t contributor, Contribution contribution, Time now);
  /// Records that `ranks` of `contributor` have joined. Until end_join(), only joins and shutdowns
  /// wait for joined ranks.
  void join(std::size_t contributor, const std::vector<int>& ranks);
  /// Removes and returns the merged contributions of the complete operations, in the order in which
  /// the operations became complete.
  std::vector<Contribution> take_complete();

  /// Removes an operation whose response is an error. Does nothing if the operation is not in the
  /// table.
  void remove(const std::string& name);
  /// Sets the age of a pending join to 0 at `now`. The root calls this function for each response
  /// message, because a join may wait without limit while other operations complete.
  void refresh_join(Time now);
  /// Makes operations wait for every rank again.
  void end_join();
  const std::set<int>& joined() const { return joined_; }
  /// Returns whether all ranks of `contributor` have joined.
  bool has_joined(std::size_t contributor) const { return live_[contributor] == 0; }

  /// Records that a rank of `contributor` has shut down and submits nothing more.
  void shut_down(std::size_t contributor, RankShutdown shutdown);
  /// Returns the shutdowns that were recorded since the last call. Adds to RankShutdown::open of
  /// each shutdown the pending operations that its contributor has submitted.
  std::vector<RankShutdown> take_shutdowns();
  /// Returns the operations that cannot complete because a rank has shut down. Returns each
  /// operation once. The operations stay in the table until remove().
  std::vector<UnsatisfiableOperation> take_unsatisfiable();

  /// Adds the report of `contributor` that an operation waits for ranks of the contributor.
  void report(std::size_t contributor, const Waiting& waiting, Time now);
  /// Returns the operations whose age at `now` is at least `age`, oldest first, but at most `most`
  /// operations. The cost does not depend on the number of other pending operations.
  std::vector<Waiting> waiting_longer_than(std::chrono::nanoseconds age, Time now,
                                           std::size_t most) const;

  /// Returns the number of incomplete operations whose latest contribution is younger than `recent`
  /// at `now`. `recent` must not grow from call to call. The amortised cost per contribution is
  /// constant.
  std::size_t under_way(std::chrono::nanoseconds recent, Time now);
  bool is_empty() const { return pending_.empty(); }

 private:
  struct PendingOperation;
  using PendingOperations = std::unordered_map<std::string, PendingOperation>;
  using OperationList = std::list<PendingOperations::value_type*>;
  struct PendingOperation {
    std::vector<bool> has_submitted;  // by contributor
    std::size_t missing = 0;          // number of contributors that have not submitted
    std::optional<Contribution> merged;
    std::vector<int> ranks;  // the ranks of `merged`
    std::unordered_map<std::size_t, std::vector<int>> reports;
    bool is_unsatisfiable = false;  // true after take_unsatisfiable() has returned it
    Time since, latest;
    std::uint64_t number = 0;
    OperationList::iterator by_age;                 // in by_age_
    std::optional<OperationList::iterator> recent;  // in recent_
  };
  struct ShutdownEntry {
    std::size_t contributor = 0;
    RankShutdown shutdown;
    bool is_new = true;
  };

  PendingOperations::iterator find_or_add(const std::string& name, Time now);
  bool needs(const PendingOperation& operation, std::size_t contributor) const;
  bool is_complete(const PendingOperation& operation) const;
  void complete(PendingOperations::iterator operation);
  OperationList::iterator append(OperationList& list, PendingOperations::value_type* operation);
  void set_since(PendingOperations::value_type& operation, Time since);
  void note_arrival(PendingOperations::value_type& operation, Time now);
  void erase(PendingOperations::iterator operation);
  std::vector<int> missing_ranks(const PendingOperation& operation) const;
  const ShutdownEntry* find_blocking_shutdown(const std::string& name,
                                              const PendingOperation& operation) const;

  std::vector<std::vector<int>> ranks_of_;
  std::vector<std::size_t> live_;  // the number of ranks of each contributor that have not joined
  std::set<int> joined_;
  PendingOperations pending_;
  OperationList by_age_;  // every operation, ascending by `since`
  OperationList recent_;  // operations that under_way() may count, ascending by `latest`
  OperationList spare_;   // unused list nodes, which append() reuses
  std::vector<Contribution> complete_;
  std::vector<ShutdownEntry> shutdowns_;
  bool may_have_unsatisfiable_ = false;
  std::uint64_t operations_seen_ = 0;
};

}  // namespace horo::coordinator
