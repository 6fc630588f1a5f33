#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "horo/coordinator/contribution.h"

namespace horo::coordinator {

/// An operation that some ranks have submitted and others have not.
struct Waiting {
  std::string name;
  std::chrono::nanoseconds age{};
  std::vector<int> missing;  ///< ranks, ascending
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

/// A rank that has shut down.
struct Departure {
  int rank = 0;
  std::uint64_t operations = 0;   ///< that it had completed by then
  std::vector<std::string> open;  ///< what it had submitted and others of its subtree had not
  friend bool operator==(const Departure&, const Departure&) = default;
};

/// An operation that can never be complete: `rank` has shut down without submitting it.
struct Orphan {
  std::string name;
  int rank = 0;
  std::uint64_t operations = 0;
  friend bool operator==(const Orphan&, const Orphan&) = default;
};

/// A rank's book of who has submitted what in its subtree of the control tree. Its contributors are
/// the rank itself (0) and its children (1 + child). Pure bookkeeping: no messages, no clock of its
/// own. Called only from the coordinator thread.
class Negotiator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// ranks_of[c]: the ranks of contributor c, ascending.
  explicit Negotiator(std::vector<std::vector<int>> ranks_of);

  /// Notes what `contributor` has submitted. Throws CommunicationError if it had already submitted
  /// an operation of that name.
  void add(std::size_t contributor, Contribution contribution, Time now);
  /// Ranks that from now on are waited for by no operation but joins and shutdowns.
  void join(std::size_t contributor, const std::vector<int>& ranks);
  /// What every contributor has submitted since the last call, merged, in the order in which it
  /// became complete.
  std::vector<Contribution> take_complete();

  /// Forgets an operation that has been answered with an error.
  void remove(const std::string& name);
  /// Lets the age of joins count from `now`: they wait while the other ranks get on.
  void refresh_join(Time now);
  /// Every rank counts again.
  void end_join();
  const std::set<int>& joined() const { return joined_; }
  /// Whether all ranks of `contributor` have joined.
  bool has_joined(std::size_t contributor) const { return live_[contributor] == 0; }

  /// A rank of `contributor` will submit nothing more.
  void depart(std::size_t contributor, Departure departure);
  /// Departures not handed out before, with what they left open in this subtree.
  std::vector<Departure> take_departures();
  /// Operations that cannot complete since a rank has departed, each handed out once; they stay in
  /// the book until remove().
  std::vector<Orphan> take_orphans();

  /// Notes whom `contributor` waits for.
  void report(std::size_t contributor, const Waiting& waiting, Time now);
  /// Of the operations older than `age` at `now` the `most` oldest, oldest first. Takes time for
  /// these alone, however many others are pending.
  std::vector<Waiting> waiting_longer_than(std::chrono::nanoseconds age, Time now,
                                           std::size_t most) const;

  /// Operations that are not complete and to which somebody contributed within `recent`, which
  /// may not grow from call to call. Takes constant time for each contribution.
  std::size_t under_way(std::chrono::nanoseconds recent, Time now);
  bool is_empty() const { return book_.empty(); }

 private:
  struct Page;
  using Book = std::unordered_map<std::string, Page>;
  using Pages = std::list<Book::value_type*>;
  struct Page {
    std::vector<bool> has_come;  // by contributor
    std::size_t missing = 0;     // contributors
    std::optional<Contribution> merged;
    std::vector<int> ranks;  // that `merged` stands for
    std::unordered_map<std::size_t, std::vector<int>> reports;
    bool is_orphan = false;  // and known as one
    Time since, latest;
    std::uint64_t number = 0;
    Pages::iterator by_age;                 // in by_age_
    std::optional<Pages::iterator> recent;  // in recent_
  };
  struct Departed {
    std::size_t contributor = 0;
    Departure departure;
    bool is_new = true;
  };

  Book::iterator page_of(const std::string& name, Time now);
  bool needs(const Page& page, std::size_t contributor) const;
  bool is_complete(const Page& page) const;
  void complete(Book::iterator page);
  void set_since(Book::value_type& page, Time since);
  void note_arrival(Book::value_type& page, Time now);
  void erase(Book::iterator page);
  std::vector<int> missing_ranks(const Page& page) const;
  const Departed* find_orphaning(const std::string& name, const Page& page) const;

  std::vector<std::vector<int>> ranks_of_;
  std::vector<std::size_t> live_;  // ranks of a contributor that have not joined
  std::set<int> joined_;
  Book book_;
  Pages by_age_;  // every page, ascending by `since`
  Pages recent_;  // those that may be under way, ascending by `latest`
  std::vector<Contribution> complete_;
  std::vector<Departed> departed_;
  bool orphans_possible_ = false;
  std::uint64_t pages_ = 0;
};

}  // namespace horo::coordinator
