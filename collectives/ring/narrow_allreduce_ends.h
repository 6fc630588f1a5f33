#pragma once

#include <array>

#include "collectives/ring/allreduce_ends.h"
#include "collectives/ring/wire.h"

namespace horo::collectives {

/// Segments of float32 travel as a 16-bit type. Values are converted as they are copied to and from
/// the segments and added in float32, so an element is rounded once per hop, and once more when it
/// is complete, so that all ranks end with the same bits. kAverage divides every rank's values
/// before they travel: their sum need not fit into the wire type.
class NarrowAllreduceEnds : public AllreduceEnds {
 public:
  static constexpr std::size_t kElementBytes = 2;  ///< on the wire

  NarrowAllreduceEnds(const RingSegments& segments, const MappedBuffer& buffer, ReduceOp op,
                      std::size_t ranks, const Wire& wire)
      : AllreduceEnds(segments, buffer, op, ranks), wire_(wire) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override;
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override;
  void arrived(std::size_t receive, std::span<const std::byte> bytes) override;

 private:
  // A segment is converted tile by tile, so that what is between stays in the nearest cache.
  static constexpr std::size_t kTile = 2048;
  using Wide = std::array<std::byte, kTile * sizeof(float)>;
  using Narrowed = std::array<std::byte, kTile * kElementBytes>;

  void narrow_own(Range range, bool is_rounding, std::byte* to);
  void add_tile(Range tile, const std::byte* partial, bool is_complete);
  void sample_error(const std::byte* wide, const std::byte* narrowed, std::size_t count);

  Wire wire_;
  Wide values_;
  Wide partial_;
  Narrowed rounded_;
};

}  // namespace horo::collectives
