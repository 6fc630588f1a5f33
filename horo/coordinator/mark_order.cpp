#include "horo/coordinator/mark_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace horo::coordinator {

void MarkOrder::clear() {
  for (std::atomic<std::uint64_t>& position : positions_) position = 0;
  noted_ = 0;
}

std::vector<std::size_t> MarkOrder::agree(collectives::Collectives& collectives) const {
  std::vector<std::int64_t> order(positions_.size());
  std::iota(order.rbegin(), order.rend(), std::int64_t{0});
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) {
    const std::uint64_t position = positions_[static_cast<std::size_t>(i)];
    return position == 0 ? std::numeric_limits<std::uint64_t>::max() : position;
  });
  collectives.broadcast({DataType::kInt64, order.data(), order.size()}, 0);
  return {order.begin(), order.end()};
}

}  // namespace horo::coordinator
