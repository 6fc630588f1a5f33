#pragma once

#include <atomic>
#include <cstddef>

namespace horo {

/// The next allocation of at least so many bytes, on any thread of the program that is linked with
/// this, fails; 0: none.
extern std::atomic<std::size_t> failing_allocation_bytes;

}  // namespace horo
