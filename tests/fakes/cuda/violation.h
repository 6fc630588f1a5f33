#pragma once

#include <string>

namespace horo::fakes {

/// Writes one line with the call, the stream or communicator, and the broken rule, and aborts the
/// process. The test then fails at the call that breaks the rule.
[[noreturn]] void violation(const std::string& call, const std::string& place,
                            const std::string& rule);

/// Marks the calling thread as one that runs a host function of a stream, while the object exists.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

/// Each function of a fake calls this first. A host function must not call `call`.
void enter(const char* call);

}  // namespace horo::fakes
