#include "horo/flight_recorder/crash_text.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <typeinfo>

#include "horo/base/text/printable.h"

namespace horo::observe {
namespace {

// Read access to a recorder's tables in its memory. The identity does not change after the recorder
// is constructed, so the offsets need no check.
class Tables {
 public:
  explicit Tables(const FlightHeader& header) : header_(header) {}

  bool is_empty() const { return identity().ring.count == 0; }

  const FlightRecord& open(std::uint32_t row) const {
    return at<FlightRecord>(identity().open, row);
  }
  std::uint32_t open_rows() const { return identity().open.count; }
  // Returns a record of the ring. `before` counts back from the latest record, for which it is 0.
  const FlightRecord& finished(std::uint64_t before) const {
    const std::uint64_t index = header_.status.records - 1 - before;
    return at<FlightRecord>(identity().ring,
                            static_cast<std::size_t>(index % identity().ring.count));
  }
  std::uint64_t finished_rows() const {
    return std::min<std::uint64_t>(header_.status.records, identity().ring.count);
  }
  std::string_view name(NameId id) const {
    if (id == 0 || id >= identity().names.count) return "?";
    const auto& name = at<FlightName>(identity().names, id);
    const std::uint32_t capacity = identity().texts.count;
    if (name.offset > capacity || name.length > capacity - name.offset) return "?";
    return {&at<char>(identity().texts, name.offset), name.length};
  }

 private:
  const FlightIdentity& identity() const { return header_.identity; }
  template <typename T>
  const T& at(const FlightTable& table, std::size_t index) const {
    const auto* begin = reinterpret_cast<const std::byte*>(&header_) + table.offset;
    return reinterpret_cast<const T*>(begin)[index];
  }

  const FlightHeader& header_;
};

bool is_whole(const FlightRecord& record) {
  return record.sequence != 0 && (record.sequence & kBeingWritten) == 0;
}

bool is_operation(std::string_view kind) {
  return kind != kPhaseKind && kind != kPauseKind && kind != kWaitKind;
}

// Returns the open record that was submitted last, or the operation or bucket that finished last,
// whichever is later. Skips phases, pauses, waits, and records that are being written. Returns null
// if there is no such record.
const FlightRecord* find_last(const Tables& tables) {
  const FlightRecord* last = nullptr;
  for (std::uint32_t row = 0; row < tables.open_rows(); ++row) {
    const FlightRecord& record = tables.open(row);
    if (is_whole(record) && (last == nullptr || record.submitted > last->submitted)) last = &record;
  }
  for (std::uint64_t before = 0; before < tables.finished_rows(); ++before) {
    const FlightRecord& record = tables.finished(before);
    if (!is_whole(record) || !is_operation(tables.name(record.kind))) continue;
    return last == nullptr || record.ended > last->submitted ? &record : last;
  }
  return last;
}

void add_exception(CrashText& text, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    text.add(error.what());
    const auto* nested = dynamic_cast<const std::nested_exception*>(&error);
    if (nested == nullptr || nested->nested_ptr() == nullptr) return;
    text.add("; caused by: ");
    add_exception(text, nested->nested_ptr());
  } catch (...) {
    text.add("unknown exception");
  }
}

}  // namespace

CrashText& CrashText::add(std::string_view text) {
  while (!is_full_ && !text.empty()) {
    const FirstCharacter first = first_character(text);
    is_full_ = length_ + first.bytes > kCapacity;
    if (is_full_) break;
    for (std::size_t i = 0; i < first.bytes; ++i)
      bytes_[length_++] = first.is_printable ? text[i] : '?';
    text.remove_prefix(first.bytes);
  }
  return *this;
}

// Does not use the C library's formatting functions, because they may allocate memory or take a
// lock.
CrashText& CrashText::add(std::int64_t number) {
  char digits[20];
  std::size_t count = 0;
  auto rest = static_cast<std::uint64_t>(number);
  if (number < 0) rest = 0 - rest;
  do digits[count++] = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (number < 0) add("-");
  while (count > 0) add(std::string_view(&digits[--count], 1));
  return *this;
}

void CrashText::write_to_stderr() {
  bytes_[length_] = '\n';
  std::size_t written = 0;
  while (written <= length_) {
    const ssize_t count = write(STDERR_FILENO, bytes_ + written, length_ + 1 - written);
    if (count <= 0) return;  // standard error cannot be written
    written += static_cast<std::size_t>(count);
  }
}

void add_last_operation(CrashText& text, const FlightHeader& header) {
  const Tables tables(header);
  if (tables.is_empty()) {
    text.add("; it was in horo::init()");
    return;
  }
  const FlightRecord* last = find_last(tables);
  if (last == nullptr) {
    text.add("; it had submitted no operation");
    return;
  }
  const std::string_view kind = tables.name(last->kind);
  text.add("; its last operation was ").add(kind).add(" '").add(tables.name(last->name));
  if (kind == kBucketKind) text.add("/bucket ").add(static_cast<std::int64_t>(last->part));
  text.add("'");
}

void add_uncaught_exception(CrashText& text) {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) {
    // Some compilers make a noexcept function call std::terminate() before the exception counts as
    // caught.
    text.add(
        std::uncaught_exceptions() > 0
            ? " ended with an exception that left a noexcept function, or in a destructor that "
              "called std::terminate()"
            : " called std::terminate() without an exception");
    return;
  }
  const std::type_info* type = abi::__cxa_current_exception_type();
  int status = 0;
  const char* name =
      type == nullptr ? nullptr : abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  text.add(" ended with an uncaught exception (");
  text.add(name != nullptr ? name : type != nullptr ? type->name() : "?").add("): ");
  add_exception(text, exception);
}

}  // namespace horo::observe
