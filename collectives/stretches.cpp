#include "collectives/stretches.h"

#include <cstring>

namespace horo::collectives {

std::byte* contiguous_address(const ScatteredBuffer& buffer, Range range) {
  std::byte* address = nullptr;
  buffer.for_each_stretch(range.begin, range.end,
                          [&](std::byte* data, std::size_t first, std::size_t count) {
                            if (first == 0 && count == range.count()) address = data;
                          });
  return address;
}

void gather(const ScatteredBuffer& buffer, Range range, std::byte* to) {
  const std::size_t width = buffer.element_bytes();
  buffer.for_each_stretch(range.begin, range.end,
                          [&](std::byte* data, std::size_t first, std::size_t count) {
                            std::memcpy(to + first * width, data, count * width);
                          });
}

void scatter(const ScatteredBuffer& buffer, Range range, const std::byte* from) {
  const std::size_t width = buffer.element_bytes();
  buffer.for_each_stretch(range.begin, range.end,
                          [&](std::byte* data, std::size_t first, std::size_t count) {
                            std::memcpy(data, from + first * width, count * width);
                          });
}

ScatteredBuffer part_of(const ScatteredBuffer& buffer, Range range) {
  ScatteredBuffer part(buffer.type());
  buffer.for_each_stretch(
      range.begin, range.end,
      [&](std::byte* data, std::size_t, std::size_t count) { part.add(data, count); });
  return part;
}

}  // namespace horo::collectives
