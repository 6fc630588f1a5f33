#include "horo/base/step_report.h"

#include <fmt/format.h>

namespace horo {

std::string StepReport::NonFinite::describe() const {
  if (rank < 0)
    return fmt::format("gradient '{}' became {} at index {} when it was reduced", name, value,
                       index);
  return fmt::format("gradient '{}' of rank {} is {} at index {}", name, rank, value, index);
}

}  // namespace horo
