#pragma once

#include <array>
#include <cstdint>

namespace horo::ops {

/// The counter-based generator Philox4x32-10: four independent uniform 32-bit numbers for every
/// pair of key and 128-bit counter, with no state in between. Thread-safe. Source: Salmon, Moraes,
/// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_high,
                                    std::uint64_t counter_low);

/// A 64-bit number that depends on every bit of both (for keys; not for untrusted input).
std::uint64_t mix(std::uint64_t first, std::uint64_t second);

}  // namespace horo::ops
