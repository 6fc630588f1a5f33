#pragma once

#include <optional>
#include <span>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// The most bytes that encode() makes of a snapshot.
inline constexpr std::size_t kMaxSnapshotBytes = 32 * 1024 - 256;

/// The bytes of a snapshot, little-endian, private to one version of horo. Long texts are cut; of
/// the open operations the oldest that fit into kMaxSnapshotBytes are kept, at least sixty; the
/// named ones among the others are counted as unlisted.
std::vector<std::byte> encode(const RankSnapshot& snapshot);
/// nullopt if the bytes are not exactly one snapshot. Any bytes may be given.
std::optional<RankSnapshot> decode_snapshot(std::span<const std::byte> bytes);

}  // namespace horo::observe
