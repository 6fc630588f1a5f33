#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace horo::collectives {
class Collectives;
}

namespace horo {

/// Tells the plans of a job, or of a process set, that live at the same time under one name apart.
/// Thread-safe, but for agree(), which collectives keep in order.
class PlanNames {
 public:
  /// A number for one more plan called `name`, the same on all ranks: 1 if none of them has such a
  /// plan, otherwise 1 more than any of theirs. It is taken until release(). Collective, one
  /// allreduce of 8 bytes.
  int agree(const std::string& name, collectives::Collectives& collectives);
  void release(const std::string& name, int number);

 private:
  std::mutex mutex_;  // guards all below
  std::map<std::string, std::set<int>> taken_;
};

/// "net", and "net#2" for the second that lives at the same time.
std::string numbered_name(const std::string& name, int number);

}  // namespace horo
