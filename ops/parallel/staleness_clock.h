#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace horo::ops {

/// The clocks of the workers in asynchronous training with bounded staleness. The clock of a worker
/// is the number of steps that it has completed. A worker may start its next step if its clock is
/// at most `staleness` ahead of the slowest worker that has not finished. So it then has the
/// updates of all steps of all workers up to its clock minus `staleness` minus 1. With staleness 0,
/// all workers are in the same step. Pure; not thread-safe. Source: Ho et al., "More effective
/// distributed ML via a stale synchronous parallel parameter server" (2013).
class StalenessClock {
 public:
  /// All clocks begin at 0. `staleness`: the largest lead of a worker that starts a step.
  StalenessClock(std::size_t workers, std::uint64_t staleness);

  std::size_t workers() const { return clocks_.size(); }  ///< the number of workers
  /// The number of steps that the worker has completed.
  std::uint64_t clock(std::size_t worker) const { return clocks_[worker]; }
  /// The smallest clock of the workers that have not finished; the largest clock if all have.
  std::uint64_t slowest() const;
  /// How many steps the worker is ahead of slowest().
  std::uint64_t lead(std::size_t worker) const;
  /// Whether the worker may start its next step.
  bool may_start(std::size_t worker) const { return lead(worker) <= staleness_; }
  /// The worker has completed a step.
  void complete(std::size_t worker) { ++clocks_[worker]; }
  /// The worker makes no further step, and others do not wait for it.
  void finish(std::size_t worker) { is_finished_[worker] = true; }
  /// Whether finish() was called for the worker.
  bool has_finished(std::size_t worker) const { return is_finished_[worker]; }
  /// Whether all workers have finished.
  bool have_all_finished() const;

 private:
  std::uint64_t staleness_;
  std::vector<std::uint64_t> clocks_;
  std::vector<bool> is_finished_;
};

}  // namespace horo::ops
