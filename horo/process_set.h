#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo {

/// A group of ranks with collectives of its own, made by Context::new_process_set(). A set offers
/// everything that a Context offers, among its members. Sets may overlap, and a set may have any
/// number of members, from one to all ranks. Sets may be made and closed at any time. Move-only.
///
/// Members are numbered 0 ... size() - 1, in the order of their ranks in the job. rank(), the root
/// of a broadcast, the splits of an alltoall and the order of an allgather use this number. So code
/// for a Context works on a set. ranks() and rank_of() convert between this number and the rank in
/// the job. Errors name ranks by their rank in the job.
///
/// A rank that is not a member gets an object too. Its includes_me() is false, and all functions
/// except ranks(), size(), rank_of(), name() and close() throw InvalidArgument.
///
/// Each set has its own coordinator thread, shared memory and communicators.
/// docs/guides/process_sets.md describes their cost. Sets work at the same time and do not block
/// each other. Ranks may use them in any order and from several threads. Names belong to a set:
/// "loss" in one set is not "loss" in another.
///
/// All functions may be called from several threads at the same time, except close(): call it after
/// the calls of other threads have returned.
///
/// CommunicationError in a set ends the whole job.
///
/// The destructor leaves the set and does not wait for the other members. Their operations that
/// need this rank then fail with ShutdownError. Sets may be destroyed in any order, also after the
/// Context. Context::shutdown() closes all sets.
class ProcessSet : public Context {
 public:
  ProcessSet(ProcessSet&&) noexcept = default;
  ProcessSet& operator=(ProcessSet&&) noexcept = default;
  ~ProcessSet();

  /// The ranks of the members in the job, ascending.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }  ///< number of members
  bool includes_me() const { return includes_me_; }             ///< whether this rank is a member
  /// The number of rank `job_rank` in this set. Throws InvalidArgument if it is not a member.
  int rank_of(int job_rank) const;
  /// The ranks of the members in the job: "{0, 2}".
  std::string name() const;

  /// Closes the set. Collective over the members: blocks until every member has called close() or
  /// destroyed its object. Releases the thread, the memory and the communicators of the set, except
  /// those that its GradientSyncs and Arenas still use. Later calls throw ShutdownError. A second
  /// close() has no effect. Throws CommunicationError.
  void close();

 private:
  friend class Context;
  ProcessSet(RuntimePointer runtime, std::vector<int> ranks);

  std::vector<int> ranks_;
  bool includes_me_ = false;
};

}  // namespace horo
