#include "collectives/device/host_device_collectives.h"

#include <numeric>
#include <utility>
#include <vector>

#include "horo/device/host/host_device.h"

namespace horo::collectives {
namespace {

using Sizes = std::vector<std::size_t>;

Sizes copy_of(std::span<const std::size_t> sizes) { return {sizes.begin(), sizes.end()}; }

std::size_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::span<const std::byte> bytes_at(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

std::span<std::byte> bytes_at(void* data, std::size_t bytes) {
  return {static_cast<std::byte*>(data), bytes};
}

}  // namespace

// Each collective copies its arguments into the submitted work, because the work may run after the
// call has returned.
HostDeviceCollectives::HostDeviceCollectives(Collectives& collectives, int rank, int size,
                                             std::function<void(const std::string&)> abort)
    : collectives_(collectives), rank_(rank), size_(size), abort_(std::move(abort)) {}

void HostDeviceCollectives::submit(device::Stream& stream, std::function<void()> collective) {
  // The lambda runs on the thread of the stream. The streams of a rank run in parallel, so the lock
  // serializes their collectives. If the collective throws, failure() reports the error, and the
  // stream fails.
  device::submit(stream, [this, collective = std::move(collective)] {
    const std::scoped_lock lock(one_at_a_time_);
    try {
      collective();
    } catch (const std::exception& error) {
      failure_.set(error.what());
      throw;
    }
  });
}

void HostDeviceCollectives::allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                                      device::Stream& stream) {
  submit(stream, [=, this] { collectives_.allreduce(ScatteredBuffer(type, data, count), op); });
}

void HostDeviceCollectives::broadcast(void* data, std::size_t bytes, int root,
                                      device::Stream& stream) {
  submit(stream, [=, this] {
    collectives_.broadcast(ScatteredBuffer(DataType::kUInt8, data, bytes), root);
  });
}

void HostDeviceCollectives::allgather(const void* input, std::span<const std::size_t> bytes_of,
                                      void* output, device::Stream& stream) {
  submit(stream, [=, this, bytes_of = copy_of(bytes_of)] {
    collectives_.allgather(bytes_at(input, bytes_of[static_cast<std::size_t>(rank_)]), bytes_of,
                           bytes_at(output, sum(bytes_of)));
  });
}

void HostDeviceCollectives::reduce_scatter(const void* input, DataType type,
                                           std::span<const std::size_t> count_of, void* output,
                                           ReduceOp op, device::Stream& stream) {
  submit(stream, [=, this, count_of = copy_of(count_of)] {
    collectives_.reduce_scatter(static_cast<const std::byte*>(input), type, count_of,
                                static_cast<std::byte*>(output), op);
  });
}

void HostDeviceCollectives::alltoall(const void* input, std::span<const std::size_t> bytes_to,
                                     void* output, std::span<const std::size_t> bytes_from,
                                     device::Stream& stream) {
  submit(stream, [=, this, bytes_to = copy_of(bytes_to), bytes_from = copy_of(bytes_from)] {
    collectives_.alltoall(bytes_at(input, sum(bytes_to)), bytes_to,
                          bytes_at(output, sum(bytes_from)), bytes_from);
  });
}

std::optional<std::string> HostDeviceCollectives::failure() const { return failure_.text(); }

void HostDeviceCollectives::abort(const std::string& reason) noexcept { abort_(reason); }

}  // namespace horo::collectives
