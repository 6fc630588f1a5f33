#include "collectives/buffers.h"

#include <cstring>

namespace horo::collectives {
namespace {

template <typename Byte>
std::vector<std::span<Byte>> cut(std::span<Byte> bytes, std::span<const std::size_t> sizes) {
  std::vector<std::span<Byte>> blocks;
  blocks.reserve(sizes.size());
  for (const std::size_t size : sizes) {
    blocks.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return blocks;
}

}  // namespace

std::byte* contiguous_address(const ScatteredBuffer& buffer, Range range) {
  std::byte* address = nullptr;
  buffer.for_each_span(range.begin, range.end,
                       [&](std::byte* data, std::size_t first, std::size_t count) {
                         if (first == 0 && count == range.count()) address = data;
                       });
  return address;
}

void gather(const ScatteredBuffer& buffer, Range range, std::byte* to) {
  const std::size_t width = buffer.element_bytes();
  buffer.for_each_span(range.begin, range.end,
                       [&](std::byte* data, std::size_t first, std::size_t count) {
                         std::memcpy(to + first * width, data, count * width);
                       });
}

void scatter(const ScatteredBuffer& buffer, Range range, const std::byte* from) {
  const std::size_t width = buffer.element_bytes();
  buffer.for_each_span(range.begin, range.end,
                       [&](std::byte* data, std::size_t first, std::size_t count) {
                         std::memcpy(data, from + first * width, count * width);
                       });
}

ScatteredBuffer part_of(const ScatteredBuffer& buffer, Range range) {
  ScatteredBuffer part(buffer.type());
  buffer.for_each_span(
      range.begin, range.end,
      [&](std::byte* data, std::size_t, std::size_t count) { part.add(data, count); });
  return part;
}

AlltoallBlocks::AlltoallBlocks(std::span<const std::byte> input,
                               std::span<const std::size_t> bytes_to, std::span<std::byte> output,
                               std::span<const std::size_t> bytes_from)
    : to_(cut(input, bytes_to)), from_(cut(output, bytes_from)) {}

void AlltoallBlocks::copy_own(int rank) const {
  if (!to(rank).empty()) std::memcpy(from(rank).data(), to(rank).data(), to(rank).size());
}

void AlltoallBlocks::drop(int rank) {
  to_[static_cast<std::size_t>(rank)] = {};
  from_[static_cast<std::size_t>(rank)] = {};
}

}  // namespace horo::collectives
