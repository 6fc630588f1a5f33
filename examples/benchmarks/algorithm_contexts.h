#pragma once

#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"

namespace horo::bench {

/// Several contexts in one job, each with another HORO_ALGORITHM, so that algorithms can be
/// measured in turn in one run.
class AlgorithmContexts {
 public:
  /// Collective. `algorithms`: values of HORO_ALGORITHM; empty: one context as the environment
  /// says, named "horo". `first`, which outlives this, keeps MPI initialised. Throws
  /// InvalidArgument for an algorithm that does not exist or cannot serve the job.
  AlgorithmContexts(Context& first, const std::vector<std::string>& algorithms);

  std::size_t size() const { return names_.size(); }
  /// "horo", or "horo_<algorithm>".
  const std::string& name(std::size_t index) const { return names_[index]; }
  Context& context(std::size_t index) { return contexts_.empty() ? first_ : contexts_[index]; }

 private:
  Context& first_;
  std::vector<std::string> names_;
  std::vector<Context> contexts_;  // empty: first_ alone
};

}  // namespace horo::bench
