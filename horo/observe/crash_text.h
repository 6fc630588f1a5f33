#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "horo/observe/flight_file.h"

namespace horo::observe {

/// A text of bounded length that a signal handler may compose: no allocation, no lock, no locale.
/// What does not fit is cut. Control characters become '?'.
class CrashText {
 public:
  CrashText& add(std::string_view text);
  CrashText& add(std::int64_t number);
  std::string_view view() const { return {bytes_, length_}; }
  /// The same, with a zero after it.
  const char* text() const { return bytes_; }
  /// Writes the text and a newline to standard error, in one call of write().
  void write_to_errors();

 private:
  // One more for the newline.
  static constexpr std::size_t kRoom = 1000;
  char bytes_[kRoom + 1] = {};
  std::size_t length_ = 0;
};

/// Adds "; its last operation was allreduce 'loss'": the operation that was submitted, or had
/// ended, last. Reads the recorder's tables alone. Async-signal-safe.
void add_last_operation(CrashText& text, const FlightHeader& header);

}  // namespace horo::observe
