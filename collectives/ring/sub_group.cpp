#include "collectives/ring/sub_group.h"

#include <algorithm>
#include <utility>

#include "horo/base/error.h"

namespace horo::collectives {

SubGroup::SubGroup(PointToPoint& parent, std::vector<int> ranks, int tag_offset)
    : parent_(parent), ranks_(std::move(ranks)), tag_offset_(tag_offset) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), parent.rank());
  HORO_CHECK(own != ranks_.end(), "a rank that is not in a group cannot use it");
  rank_ = static_cast<int>(own - ranks_.begin());
}

}  // namespace horo::collectives
