#pragma once

namespace horo::collectives {

// Tags of the ring collectives, below kTagCount. One collective runs at a time and messages between
// two ranks stay in order, so one tag for each pattern is enough.
inline constexpr int kFlowTag = 0;
inline constexpr int kBroadcastTag = 1;
inline constexpr int kBarrierTag = 2;
inline constexpr int kExchangeTag = 3;
/// Tags that one group uses; groups that share a parent are offset by it.
inline constexpr int kTagCount = 4;

}  // namespace horo::collectives
