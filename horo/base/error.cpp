#include "horo/base/error.h"

namespace horo::detail {

void throw_check_failure(const char* expression, const std::string& message,
                         std::source_location where) {
  if (!message.empty()) throw InvalidArgument(message);
  throw InvalidArgument(std::string("requirement does not hold: ") + expression + " (" +
                        where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace horo::detail
