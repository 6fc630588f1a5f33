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

/// Name of an operation in messages: "'loss'", or "'loss' of process set {0, 2}".
std::string quote_operation(std::string_view name, const Topology& topology);

/// Finds operations that have waited too long, and the ranks that they wait for. The root notes
/// them for the watchdog, which decides whether to log them. It also returns the timeout error.
/// Other ranks report to their parent. Not thread-safe.
class StallWatch {
 public:
  /// All arguments must outlive this object. `long_waits` may be null.
  StallWatch(const Topology& topology, const Settings& settings, const WaitPolicy& policy,
             observe::LongWaits* long_waits);

  struct Expired {
    std::string name;
    std::string error;
  };
  /// On the root. Notes the oldest operations that have waited for HORO_STALL_WARNING. Returns the
  /// error of the oldest operation that has waited for HORO_TIMEOUT and WaitPolicy::grace. Time
  /// that AbortSignal excludes, such as a pause, does not count.
  std::optional<Expired> check(const ReadinessTable& table, ReadinessTable::Time now);

  /// On other ranks. Returns the oldest waiting operations for the parent, if these operations or
  /// the ranks that they wait for have changed since the last call. Reports an operation after a
  /// quarter of HORO_STALL_WARNING, so that the root can name the ranks in time.
  std::vector<Waiting> changes(const ReadinessTable& table, ReadinessTable::Time now);

 private:
  const Topology& topology_;
  const Settings& settings_;
  const WaitPolicy& policy_;
  observe::LongWaits* const long_waits_;
  std::unordered_map<std::string, std::vector<int>> reported_;
};

}  // namespace horo::coordinator
