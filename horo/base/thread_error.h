#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace horo {

/// Stores the text of an error that is about to be thrown to the program on this thread. A failing
/// rank reports this text, because it cannot read the text of an exception during stack unwinding.
void record_thread_error(std::string_view text) noexcept;

/// The last text stored on this thread if it is at most `age` old; otherwise empty.
std::string latest_thread_error(std::chrono::nanoseconds age);

}  // namespace horo
