#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/coordinator/negotiator.h"

namespace horo::coordinator {

/// "'loss'", or "'loss' of process set {0, 2}": how an operation is named in messages.
std::string quote_operation(std::string_view name, const Topology& topology);

/// Which operations have waited too long, and for whom: warnings and the final error on the root,
/// reports to the parent elsewhere. Used by one thread at a time.
class StallWatch {
 public:
  /// All outlive this.
  StallWatch(const Topology& topology, const Settings& settings, const WaitPolicy& policy);

  /// Logs a warning for each operation that is due for one, unless the watchdog does. Returns the
  /// error for the oldest one that has waited for HORO_TIMEOUT, without time that is excused.
  struct Expired {
    std::string name;
    std::string error;
  };
  std::optional<Expired> warn(const Negotiator& negotiator, Negotiator::Time now);

  /// What the parent should know: the oldest waiting operations, if they or the ranks they wait for
  /// have changed since the last call. Earlier than a warning is due, so that the root can name the
  /// ranks when it is.
  std::vector<Waiting> news(const Negotiator& negotiator, Negotiator::Time now);

 private:
  const Topology& topology_;
  const Settings& settings_;
  const WaitPolicy& policy_;
  std::unordered_map<std::string, Negotiator::Time> warned_;
  std::unordered_map<std::string, std::vector<int>> reported_;
};

}  // namespace horo::coordinator
