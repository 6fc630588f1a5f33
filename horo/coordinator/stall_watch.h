#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/coordinator/negotiation/readiness_table.h"
#include "horo/watchdog/long_waits.h"

namespace horo::coordinator {

/// Returns the name of an operation for messages: "'loss'", or "'loss' of process set {0, 2}".
std::string quote_operation(std::string_view name, const Topology& topology);

/// Finds operations that have waited too long, and the ranks that have not submitted them. On the
/// root, check() notes the operations for the watchdog, which decides whether to log them. check()
/// also returns the error of an operation that has timed out. On other ranks, changes() returns the
/// operations that the rank reports to its parent. Not thread-safe.
class StallWatch {
 public:
  /// All arguments must outlive this object. `long_waits` may be null.
  StallWatch(const Topology& topology, const Settings& settings, const WaitPolicy& policy,
             observe::LongWaits* long_waits);

  struct Expired {
    std::string name;
    std::string error;
  };
  /// Called on the root. Notes the oldest operations that have waited for HORO_STALL_WARNING, or
  /// for HORO_TIMEOUT if that is shorter. Returns the error of the oldest operation that has waited
  /// for HORO_TIMEOUT plus WaitPolicy::grace. The timeout does not include time that AbortSignal
  /// excludes, such as a pause.
  std::optional<Expired> check(const ReadinessTable& table, ReadinessTable::Time now);

  /// Called on other ranks. Finds the oldest operations that have waited for a quarter of the time
  /// after which check() notes them, so that the root can name the missing ranks in time. Returns
  /// those that the last call did not find or that now wait for different ranks. The caller must
  /// report them to the parent.
  std::vector<Waiting> changes(const ReadinessTable& table, ReadinessTable::Time now);

 private:
  const Topology& topology_;
  const Settings& settings_;
  const WaitPolicy& policy_;
  observe::LongWaits* const long_waits_;
  std::unordered_map<std::string, std::vector<int>> reported_;
};

}  // namespace horo::coordinator
