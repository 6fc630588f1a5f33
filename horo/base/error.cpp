#include "horo/base/error.h"

#include "horo/base/printable.h"
#include "horo/base/thread_error.h"

namespace horo {

Error::Error(const std::string& text) : std::runtime_error(printable(text)) {
  // The text is recorded when the error is created. A later failure on the same thread can then
  // name this text as the cause, even if the program has caught the error.
  record_thread_error(what());
}

}  // namespace horo

namespace horo::detail {

void throw_check_failure(const char* expression, const std::string& message,
                         std::source_location where) {
  if (!message.empty()) throw InvalidArgument(message);
  throw InvalidArgument(std::string("requirement does not hold: ") + expression + " (" +
                        where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace horo::detail
