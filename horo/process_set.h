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
/// this number and the rank in the job. Errors name a rank by its rank in the job, unless they
/// repeat an argument.
///
/// A rank that is not a member gets an object too. Its includes_me() is false. On such a rank, all
/// functions throw InvalidArgument, except includes_me(), ranks(), size(), rank_of(), name(),
/// close() and shutdown(). close() and shutdown() have no effect there.
///
/// On its members, each set has its own coordinator thread, shared memory and communicators.
/// docs/guides/process_sets.md describes their cost. Asynchronous operations of different sets can
/// run at the same time and do not block each other. Several threads may use sets. Blocking calls
/// on different sets deadlock if two ranks make them in different orders from one thread. Each set
/// has its own names: operation "loss" in one set does not match "loss" in another.
///
/// All functions, except close(), moving and destruction, may be called from several threads at the
/// same time. The caller must call close() after the calls of other threads have returned.
///
/// CommunicationError in a set, except SharedMemoryError, ends the whole job.
///
/// The destructor leaves the set and does not wait for the other members. Operations of the other
/// members that this rank has not submitted then fail with ShutdownError. Sets may be destroyed in
/// any order, also after the Context. Context::shutdown() closes all sets of the Context.
class ProcessSet : public Context {
 public:
  /// Calls on the other object then throw ShutdownError.
  ProcessSet(ProcessSet&&) noexcept = default;
  /// Exchanges the two memberships: the destructor of the other object leaves the former set.
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
  /// destroyed its object. Ends the coordinator thread of the set. The memory and the communicators
  /// of the set are released when all objects made from the set, such as GradientSyncs, have been
  /// destroyed. Later operations throw ShutdownError. A second close() has no effect. Throws
  /// CommunicationError if the job has failed, and InvalidArgument in a completion callback.
  void close();

 private:
  friend class Context;
  ProcessSet(RuntimePointer runtime, std::vector<int> ranks);

  std::vector<int> ranks_;
  bool includes_me_ = false;
};

}  // namespace horo
