#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo {

/// A group of ranks with collectives of its own, made by Context::new_process_set(). A set offers
/// all functions of a Context, among its members. Sets may overlap. A set may have any number of
/// members, from one to all ranks. Sets may be made and closed at any time. Move-only.
///
/// Members are numbered 0 ... size() - 1, in the order of their ranks in the job. rank(), the root
/// of a broadcast, the splits of an alltoall and the order of an allgather use this number. Code
/// that is written for a Context therefore works on a set. ranks() and rank_of() convert between
/// this number and the rank in the job. Errors name ranks by their rank in the job.
///
/// A rank that is not a member gets an object too. Its includes_me() is false. On such a rank, all
/// functions throw InvalidArgument, except includes_me(), ranks(), size(), rank_of(), name(),
/// close() and shutdown(). close() and shutdown() have no effect there.
///
/// Each set has its own coordinator thread, shared memory and communicators.
/// docs/guides/process_sets.md describes their cost. Operations of different sets run at the same
/// time and do not block each other. Ranks may use sets in any order and from several threads. Each
/// set has its own names: operation "loss" in one set does not match "loss" in another.
///
/// All functions except close() may be called from several threads at the same time. The caller
/// must call close() after the calls of other threads have returned.
///
/// CommunicationError in a set ends the whole job.
///
/// The destructor leaves the set and does not wait for the other members. Operations of the other
/// members that need this rank then fail with ShutdownError. Sets may be destroyed in any order,
/// also after the Context. Context::shutdown() closes all sets of the Context.
class ProcessSet : public Context {
 public:
  ProcessSet(ProcessSet&&) noexcept = default;
  ProcessSet& operator=(ProcessSet&&) noexcept = default;
  ~ProcessSet();

  /// The ranks of the members in the job, ascending.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }  ///< number of members
  bool includes_me() const { return includes_me_; }             ///< whether this rank is a member
  /// The number, in this set, of the member with rank `job_rank` in the job. Throws InvalidArgument
  /// if that rank is not a member.
  int rank_of(int job_rank) const;
  /// The ranks of the members in the job as text, such as "{0, 2}".
  std::string name() const;

  /// Closes the set. Collective over the members: blocks until every member has called close() or
  /// destroyed its object. Releases the thread, the memory and the communicators of the set. What
  /// GradientSyncs and Arenas of the set still use is released when they are destroyed. Later
  /// operations throw ShutdownError. A second close() has no effect. Throws CommunicationError if
  /// the job has failed, and InvalidArgument in a completion callback.
  void close();

 private:
  friend class Context;
  ProcessSet(RuntimePointer runtime, std::vector<int> ranks);

  std::vector<int> ranks_;
  bool includes_me_ = false;
};

}  // namespace horo
