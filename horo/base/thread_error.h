#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace horo {

/// Stores the text of an error that is about to be thrown on this thread, cut to 1000 bytes. A rank
/// that fails reports this text, because it cannot read the text of an exception during stack
/// unwinding.
void record_thread_error(std::string_view text) noexcept;

/// Returns the last text stored on this thread if it is at most `age` old; otherwise an empty text.
std::string latest_thread_error(std::chrono::nanoseconds age);

/// Restores the text and its age at the end of the scope. For code that makes errors which this
/// thread does not throw, such as those of operations that end with a shutdown.
class KeepThreadError {
 public:
  KeepThreadError();
  ~KeepThreadError();
  KeepThreadError(const KeepThreadError&) = delete;
  KeepThreadError& operator=(const KeepThreadError&) = delete;

 private:
  std::string text_;
  std::int64_t at_;
};

}  // namespace horo
