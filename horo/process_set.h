#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo {

/// Some ranks of the job as a group of their own, made by Context::new_process_set(): everything
/// that a Context offers, among the members. Sets may overlap, one may hold all ranks or a single
/// one, and there may be any number, made and closed while the job runs. Moved, not copied.
///
/// Inside a set the members are numbered 0 ... size() - 1 in the order of their ranks in the job:
/// rank(), the root of a broadcast, the splits of an alltoall and the order of what is gathered
/// count in these numbers, so that code written for a Context works on a set. ranks() and
/// rank_of() translate. Errors name ranks as the job does.
///
/// A rank that is not a member gets an object too: includes_me() is false, and everything but
/// ranks(), size(), rank_of() and close() throws InvalidArgument.
///
/// Each set has its own thread for named operations, its own shared memory (what a plan has; see
/// docs/process_sets.md) and its own channels: sets run at the same time, from as many threads as
/// the program likes, and none can block another, whatever the order in which ranks use them. Names
/// are the set's own: "loss" in one set is another operation than "loss" in the next.
///
/// All members may be called from several threads at once, but for close(): what another thread
/// asks of the set has returned before.
///
/// A set that fails with CommunicationError has lost a rank, and the job ends with it.
///
/// The destructor leaves the set without waiting for the other members: what they still ask of this
/// rank there ends with ShutdownError. Sets may be destroyed in any order, also after the Context,
/// whose shutdown() closes those that are open.
class ProcessSet : public Context {
 public:
  ProcessSet(ProcessSet&&) noexcept = default;
  ProcessSet& operator=(ProcessSet&&) noexcept = default;
  ~ProcessSet();

  /// The members, by their ranks in the job, ascending.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool includes_me() const { return includes_me_; }
  /// The number inside this set of `job_rank`. Throws InvalidArgument if it is not a member.
  int rank_of(int job_rank) const;
  /// "{0, 2}"
  std::string name() const;

  /// Waits until every member has called it (or left) and releases the set's thread, memory and
  /// channels, as far as no GradientSync or Arena of the set needs them. Later calls throw
  /// ShutdownError; a second close() does nothing. Throws CommunicationError.
  void close();

 private:
  friend class Context;
  ProcessSet(RuntimePointer runtime, std::vector<int> ranks);

  std::vector<int> ranks_;
  bool includes_me_ = false;
};

}  // namespace horo
