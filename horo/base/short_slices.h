#pragma once

namespace horo {

/// Asks the kernel for short time slices for the calling thread: when it wakes up, or has yielded,
/// it gets its core back from a thread that computes there within a fraction of a millisecond
/// instead of after some. Its share of the core stays the same. Does nothing where the kernel does
/// not know such a request (Linux before 6.12) or forbids it.
void ask_for_short_slices() noexcept;

}  // namespace horo
