#include "horo/base/error.h"

#include "horo/base/text/printable.h"
#include "horo/base/thread_error.h"

namespace horo {

Error::Error(const std::string& text) : std::runtime_error(printable(text)) {
  // If an exception of this thread later unwinds a Context, the Context reports this text; see
  // latest_thread_error().
  record_thread_error(what());
}

}  // namespace horo

namespace horo::detail {

void throw_check_failure(const char* expression, const std::string& message, SourceLocation where) {
  if (!message.empty()) throw InvalidArgument(message);
  throw InvalidArgument(std::string("requirement does not hold: ") + expression + " (" +
                        where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace horo::detail
