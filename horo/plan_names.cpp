#include "horo/plan_names.h"

#include <fmt/format.h>

#include "collectives/collectives.h"

namespace horo {

int PlanNames::agree(const std::string& name, collectives::Collectives& collectives) {
  std::int64_t number = 1;
  {
    const std::scoped_lock lock(mutex_);
    const auto taken = taken_.find(name);
    if (taken != taken_.end()) number = *taken->second.rbegin() + 1;
  }
  collectives.allreduce({DataType::kInt64, &number, 1}, ReduceOp::kMax);
  const std::scoped_lock lock(mutex_);
  taken_[name].insert(static_cast<int>(number));
  return static_cast<int>(number);
}

void PlanNames::release(const std::string& name, int number) {
  const std::scoped_lock lock(mutex_);
  const auto taken = taken_.find(name);
  if (taken == taken_.end()) return;
  taken->second.erase(number);
  if (taken->second.empty()) taken_.erase(taken);
}

std::string numbered_name(const std::string& name, int number) {
  return number == 1 ? name : fmt::format("{}#{}", name, number);
}

}  // namespace horo
