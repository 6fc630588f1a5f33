#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace horo {

/// Notes the text of an error that is about to be thrown to the program on this thread. While the
/// exception unwinds the stack its text cannot be read, and a rank that fails has to give a reason.
void note_thread_error(std::string_view text) noexcept;

/// The last text that was noted on this thread, if that is no longer than `age` ago; else empty.
std::string latest_thread_error(std::chrono::nanoseconds age);

}  // namespace horo
