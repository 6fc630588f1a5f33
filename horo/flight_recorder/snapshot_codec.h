#pragma once

#include <optional>
#include <span>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The maximum number of bytes of an encoded snapshot.
inline constexpr std::size_t kMaxSnapshotBytes = 32 * 1024 - 256;

/// Encodes a snapshot in the byte order of the machine, in a format private to one version of horo.
/// Long texts are truncated. Keeps the oldest open operations that fit into kMaxSnapshotBytes, at
/// least 57. Adds the number of named operations that do not fit to `unlisted`.
std::vector<std::byte> encode(const RankSnapshot& snapshot);
/// Decodes one snapshot. Returns nullopt if the bytes are not exactly one snapshot. Accepts
/// arbitrary bytes.
std::optional<RankSnapshot> decode_snapshot(std::span<const std::byte> bytes);

}  // namespace horo::observe
