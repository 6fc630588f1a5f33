#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace horo {

/// Sleeps while `word` holds `expected`, for at most `timeout`. May return early, so the caller
/// must check `word` again. Works between processes that map the same memory.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout);
/// Wakes all threads that sleep on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace horo
