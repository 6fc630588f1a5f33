#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace horo {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Sets the lowest level that this process logs. Initially kWarning. Messages are lines on stderr,
/// prefixed with the time, the level and the label. Thread-safe.
void set_log_level(LogLevel level);
LogLevel log_level();

/// Sets the label of this thread's messages, such as "rank 3". Initially "horo". Each thread has
/// its own label, because ranks may be threads of one process.
void set_log_label(std::string label);
std::string log_label();

/// Logs printable(text) as one line if `level` is enabled. Thread-safe. Never throws.
void log_message(LogLevel level, std::string_view text) noexcept;

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kDebug)
    log_message(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kInfo)
    log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kWarning)
    log_message(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kError)
    log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace horo
