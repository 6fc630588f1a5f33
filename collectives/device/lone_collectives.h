#pragma once

#include "collectives/device/device_collectives.h"

namespace horo::collectives {

/// Those of a group of one rank: copies where input and output differ, and nothing else.
class LoneCollectives : public DeviceCollectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void allreduce(void*, DataType, std::size_t, ReduceOp, device::Stream&) override {}
  void broadcast(void*, std::size_t, int, device::Stream&) override {}
  void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                 device::Stream& stream) override {
    if (input != output) stream.copy(output, input, bytes_of[0]);
  }
  void reduce_scatter(const void* input, DataType type, std::span<const std::size_t> count_of,
                      void* output, ReduceOp, device::Stream& stream) override {
    stream.copy(output, input, count_of[0] * size_of(type));
  }
  void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                std::span<const std::size_t>, device::Stream& stream) override {
    stream.copy(output, input, bytes_to[0]);
  }
  std::optional<std::string> failure() const override { return std::nullopt; }
  void abort(const std::string&) noexcept override {}
};

}  // namespace horo::collectives
