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

/// Returns the name of an operation for messages: "'loss'", or "'loss' of process set {0, 2}" if
/// `topology` describes a process set.
std::string quote_operation(std::string_view name, const Topology& topology);

/// Finds operations that have waited too long, and the ranks that have not submitted them. The root
/// of the control tree calls check(), which notes these operations for the watchdog and returns the
/// error of an operation that has timed out. Every other rank calls changes(), which returns the
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
  /// Called only on the root. If the oldest operation has timed out (see
  /// WaitPolicy::has_timed_out()), returns the error of that operation. Otherwise notes the
  /// operations that have waited for HORO_STALL_WARNING, or for HORO_TIMEOUT if that is shorter.
  /// Considers at most the 8 oldest operations, and ignores the shutdown of a process set.
  std::optional<Expired> check(const ReadinessTable& table, ReadinessTable::Time now);

  /// Called only on ranks other than the root. Finds the operations that have waited for a quarter
  /// of the time after which check() notes them, so that the root receives the missing ranks in
  /// time. Considers at most the 8 oldest operations. Returns the operations that the last call did
  /// not find, and those whose missing ranks have changed since the last call. The caller must
  /// report the returned operations to its parent.
  std::vector<Waiting> changes(const ReadinessTable& table, ReadinessTable::Time now);

 private:
  const Topology& topology_;
  const Settings& settings_;
  const WaitPolicy& policy_;
  observe::LongWaits* const long_waits_;
  std::unordered_map<std::string, std::vector<int>> reported_;
};

}  // namespace horo::coordinator
