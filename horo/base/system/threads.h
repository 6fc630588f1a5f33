#pragma once

namespace horo {

/// The name of the thread that exists while a rank waits in init() for other ranks. The launcher
/// looks for this name in /proc to find the ranks that are in init(). At most 15 characters.
inline constexpr const char* kInitThreadName = "horo init";

/// Asks the kernel for short time slices for the calling thread. After a wake-up or a yield, the
/// thread then usually preempts a computing thread within a fraction of a millisecond instead of
/// several milliseconds. The thread's share of the core stays the same. Does nothing if the kernel
/// does not support this (Linux before 6.12) or forbids it.
void ask_for_short_slices() noexcept;

}  // namespace horo
