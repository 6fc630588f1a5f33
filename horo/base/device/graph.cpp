#include "horo/base/device/graph.h"

#include <utility>

namespace horo::device {

void Capture::keep(std::shared_ptr<const void> object) {
  const std::scoped_lock lock(mutex_);
  kept_.push_back(std::move(object));
}

std::vector<std::shared_ptr<const void>> Capture::take_kept() {
  const std::scoped_lock lock(mutex_);
  return std::move(kept_);
}

}  // namespace horo::device
