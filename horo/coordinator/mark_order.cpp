#include "horo/coordinator/mark_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace horo::coordinator {

void MarkOrder::clear() {
  for (std::atomic<std::uint64_t>& position : positions_) position = 0;
  noted_ = 0;
}

std::vector<std::size_t> MarkOrder::agree(collectives::Collectives& collectives) {
  order_.resize(positions_.size());
  std::iota(order_.rbegin(), order_.rend(), std::int64_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::int64_t i) {
    const std::uint64_t position = positions_[static_cast<std::size_t>(i)];
    return position == 0 ? std::numeric_limits<std::uint64_t>::max() : position;
  });
  collectives.broadcast({DataType::kInt64, order_.data(), order_.size()}, 0);
  return {order_.begin(), order_.end()};
}

}  // namespace horo::coordinator
