#pragma once

#include <optional>
#include <span>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The maximum number of bytes of an encoded snapshot.
inline constexpr std::size_t kMaxSnapshotBytes = 32 * 1024 - 256;

/// Encodes a snapshot in the byte order of the machine, in a format private to one version of horo.
/// Omits RankSnapshot::ending. Truncates long texts and long lists. Keeps as many open operations,
/// from the first one on, as fit into kMaxSnapshotBytes: at least 57, or all if there are fewer.
/// Adds the number of omitted named operations to `unlisted`.
std::vector<std::byte> encode(const RankSnapshot& snapshot);
/// Decodes one snapshot. Accepts arbitrary bytes, and returns nullopt if they are not exactly one
/// snapshot of at most kMaxSnapshotBytes.
std::optional<RankSnapshot> decode_snapshot(std::span<const std::byte> bytes);

}  // namespace horo::observe
