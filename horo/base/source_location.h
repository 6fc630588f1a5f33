#pragma once

#include <cstdint>

namespace horo {

/// A place in a source file, for texts of errors. std::source_location is not available with clang
/// 14 and 15, which lack a builtin that libstdc++ requires.
class SourceLocation {
 public:
  /// As a default argument, the place of the call.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          std::uint_least32_t line = __builtin_LINE()) noexcept {
    return SourceLocation(file, line);
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr std::uint_least32_t line() const noexcept { return line_; }

 private:
  constexpr SourceLocation(const char* file, std::uint_least32_t line) noexcept
      : file_(file), line_(line) {}

  const char* file_;
  std::uint_least32_t line_;
};

}  // namespace horo
