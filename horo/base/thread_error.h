#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace horo {

/// Stores the text of an error that is about to be thrown on this thread, cut to 1000 bytes. A rank
/// that fails reports this text, because it cannot read the text of an exception during stack
/// unwinding.
void record_thread_error(std::string_view text) noexcept;

/// Returns the last text stored on this thread if it is at most `age` old; otherwise an empty text.
std::string latest_thread_error(std::chrono::nanoseconds age);

}  // namespace horo
