#include "horo/base/text/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "horo/base/text/printable.h"

namespace horo {
namespace {

// One level for the process, even if its ranks are threads.
std::atomic<LogLevel> current_level{LogLevel::kWarning};
thread_local std::string current_label;  // NOLINT: a thread's own label

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // Never destroyed, because a thread may still log while exit() runs destructors.
  static auto* instance = [] {
    auto* created = new spdlog::logger("horo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%H:%M:%S.%e %l %v");
    created->set_level(spdlog::level::debug);
    created->flush_on(spdlog::level::debug);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { current_level = level; }
LogLevel log_level() { return current_level; }
void set_log_label(std::string label) { current_label = std::move(label); }
std::string log_label() { return current_label; }

// Makes the text printable for all callers, because names of tensors and file names in the text may
// contain control characters.
void log_message(LogLevel level, std::string_view text) noexcept {
  if (level < log_level() || level == LogLevel::kOff) return;
  try {
    logger().log(to_spdlog(level), "[{}] {}",
                 current_label.empty() ? "horo" : printable(current_label), printable(text));
  } catch (...) {  // NOLINT: a line that cannot be logged is dropped
  }
}

}  // namespace horo
