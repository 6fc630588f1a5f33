#pragma once

#include <atomic>
#include <cstddef>

namespace horo {

/// The next allocation of at least this many bytes fails, on any thread of the program. 0 disables
/// the failure. Takes effect only in programs that link this library.
extern std::atomic<std::size_t> failing_allocation_bytes;

}  // namespace horo
