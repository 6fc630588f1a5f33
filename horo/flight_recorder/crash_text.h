#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {

/// A text of bounded length that a signal handler may compose. The members take no lock, allocate
/// nothing and use no locale. Text beyond the capacity is dropped. Each byte that printable() would
/// escape becomes '?'.
class CrashText {
 public:
  CrashText& add(std::string_view text);
  CrashText& add(std::int64_t number);
  std::string_view view() const { return {bytes_, length_}; }
  /// Returns the same text with a terminating null. Must not be called after write_to_stderr().
  const char* text() const { return bytes_; }
  /// Writes the text and a newline to standard error, if possible with one call of write().
  void write_to_stderr();

 private:
  // The array has one more byte for the null or the newline at the end.
  static constexpr std::size_t kCapacity = 1000;
  char bytes_[kCapacity + 1] = {};
  std::size_t length_ = 0;
  bool is_full_ = false;  // a character did not fit; all later text is dropped
};

/// Adds a clause such as "; its last operation was allreduce 'loss'". The clause names the open
/// record that was submitted last, or the operation or bucket that finished last, whichever is
/// later. Adds "; it had submitted no operation" if the tables have no such record, and "; it was
/// in horo::init()" if the recorder has no tables. Async-signal-safe.
void add_last_operation(CrashText& text, const FlightHeader& header);

/// Adds " ended with an uncaught exception (TYPE): TEXT" for the current exception, with the texts
/// of nested exceptions. If there is no current exception, adds the probable reason why
/// std::terminate() was called. Must be called from a terminate handler. Allocates memory.
void add_uncaught_exception(CrashText& text);

}  // namespace horo::observe
