#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// A text of bounded length that a signal handler may compose: it takes no lock, allocates nothing
/// and uses no locale. Text beyond the capacity is dropped. Each byte that printable() would escape
/// becomes '?'.
class CrashText {
 public:
  CrashText& add(std::string_view text);
  CrashText& add(std::int64_t number);
  std::string_view view() const { return {bytes_, length_}; }
  /// The same text, null-terminated.
  const char* text() const { return bytes_; }
  /// Writes the text and a newline to standard error, if possible by one call of write().
  void write_to_stderr();

 private:
  // One more byte is allocated for the newline.
  static constexpr std::size_t kCapacity = 1000;
  char bytes_[kCapacity + 1] = {};
  std::size_t length_ = 0;
  bool is_full_ = false;  // a character did not fit, so no text follows
};

/// Adds "; its last operation was allreduce 'loss'", which names the operation that was submitted
/// or finished last, or "; it was in horo::init()" if the recorder has no tables. Reads only the
/// recorder's tables. Async-signal-safe.
void add_last_operation(CrashText& text, const FlightHeader& header);

/// Adds " ended with an uncaught exception (TYPE): TEXT", with the texts of nested exceptions, or
/// the reason why std::terminate() was called without an exception. Must be called from a terminate
/// handler. Allocates memory.
void add_uncaught_exception(CrashText& text);

}  // namespace horo::observe
