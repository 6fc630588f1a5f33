#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/device/fused_layout.h"
#include "collectives/device/move_tiles.h"
#include "horo/device/device.h"

namespace horo::bench {

/// Divides every count by `divide`. Results are at least 1.
std::vector<std::size_t> divided(std::vector<std::size_t> counts, std::size_t divide);

/// Float32 tensors of random values in device memory, with their fused buffer. There are several
/// equal sets that take turns: enough that no set is still in a cache of 60 MB at its next use.
class RotatedTensors {
 public:
  /// counts[t]: elements of tensor t. Buffers are poisoned initially.
  RotatedTensors(device::Device& device, device::Stream& stream,
                 const std::vector<std::size_t>& counts, DataType wire);

  struct Set {
    device::Memory tensors, buffer;
    std::unique_ptr<collectives::FusedLayout> layout;  ///< in one chunk for each table
    std::vector<TensorView> views;
  };
  const Set& operator[](std::size_t i) const { return sets_[i % sets_.size()]; }
  std::size_t size() const { return sets_.size(); }
  /// Elements of a set.
  std::size_t count() const { return count_; }
  /// The bytes that packing or unpacking one set reads and writes.
  std::size_t moved_bytes() const { return count_ * (sizeof(float) + size_of(wire_)); }

  /// A single launch for each table.
  void pack(device::Device& device, device::Stream& stream, std::size_t i, double scale) const;
  void unpack(device::Device& device, device::Stream& stream, std::size_t i, double scale) const;
  /// Packs and unpacks the first set over poisoned memory. Throws Error if a value differs from the
  /// original by more than the precision of the wire type.
  void check(device::Device& device, device::Stream& stream, double scale) const;

 private:
  void move(decltype(collectives::pack)& mover, device::Device& device, device::Stream& stream,
            std::size_t i, double scale) const;

  const DataType wire_;
  std::size_t count_ = 0;
  std::vector<std::size_t> place_of_;  // where each tensor begins, in elements
  device::Memory values_;              // the tensors of any set, on the host
  std::vector<Set> sets_;
};

}  // namespace horo::bench
