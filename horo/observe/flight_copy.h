#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/observe/flight_file.h"

namespace horo::observe {

/// Frees the rows of the table of open operations in `copy`, the bytes of a recorder that was
/// written to while it was copied, that have another operation now: they may hold fields of two.
/// `sequences`: those of the recorder's rows, in their order, read after the copy. Requires that
/// the table lies inside `copy`.
void drop_changed_rows(std::span<std::byte> copy, const FlightTable& open,
                       std::span<const std::uint64_t> sequences);

}  // namespace horo::observe
