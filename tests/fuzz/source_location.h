#pragma once

// run_fuzzer.cmake includes this file before all others. clang 14 and 15 lack the builtin that
// libstdc++'s <source_location> requires, so they have no std::source_location.
#include <version>

#if !defined(__cpp_lib_source_location)
#include <cstdint>

namespace std {
class source_location {
 public:
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           uint_least32_t line = __builtin_LINE()) noexcept {
    return source_location(file, function, line);
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr uint_least32_t line() const noexcept { return line_; }

 private:
  constexpr source_location(const char* file, const char* function, uint_least32_t line) noexcept
      : file_(file), function_(function), line_(line) {}
  const char* file_;
  const char* function_;
  uint_least32_t line_;
};
}  // namespace std
#endif
