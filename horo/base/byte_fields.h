#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace horo {

/// Writes fields to a byte array, one after the other, in the byte order of the machine.
class FieldWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { put_raw(std::as_bytes(std::span(&value, 1))); }
  /// Writes the length of a list, in 32 bits. The caller must write the items next.
  void put_count(std::size_t count) { put(static_cast<std::uint32_t>(count)); }
  /// Writes at most the first `limit` bytes of `text`, preceded by their number.
  void put_text(std::string_view text, std::size_t limit = std::string_view::npos) {
    put_bytes(std::as_bytes(std::span(text.substr(0, limit))));
  }
  /// Writes the number of bytes, in 32 bits, and then the bytes.
  void put_bytes(std::span<const std::byte> bytes) {
    put_count(bytes.size());
    put_raw(bytes);
  }
  /// Writes bytes without their number. The reader must pass the same number to get_raw().
  void put_raw(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes.size());
    std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads fields from bytes that may be malformed. The first missing or invalid field and all
/// further fields are zero or empty, and is_whole() is then false. The bytes must outlive this
/// object and the spans that it returns.
class FieldReader {
 public:
  /// If `on_error` is given, the reader calls it at every missing or invalid field. `on_error` may
  /// throw.
  explicit FieldReader(std::span<const std::byte> bytes, void (*on_error)() = nullptr)
      : rest_(bytes), on_error_(on_error) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T get() {
    T value{};
    const auto raw = get_raw(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  /// Reads a bool, stored as 0 or 1.
  bool get_flag() {
    const auto value = get<std::uint8_t>();
    if (value > 1) fail();
    return value == 1;
  }
  /// Reads an enumerator below `count`, stored as its underlying type.
  template <typename Enum>
  Enum get_enum(int count) {
    const auto value = get<std::underlying_type_t<Enum>>();
    if (value >= 0 && static_cast<std::int64_t>(value) < count) return static_cast<Enum>(value);
    fail();
    return Enum{};
  }
  std::string get_text() {
    const auto raw = get_bytes();
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::span<const std::byte> get_bytes() { return get_raw(get<std::uint32_t>()); }
  /// Reads bytes written by put_raw().
  std::span<const std::byte> get_raw(std::size_t count) {
    if (has_failed_ || count > rest_.size()) {
      fail();
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// Reads the length of a list. Each item of the list takes at least `item_bytes`. A length is
  /// invalid if the remaining bytes are too few for the items.
  std::size_t get_count(std::size_t item_bytes) {
    const auto count = get<std::uint32_t>();
    if (count <= rest_.size() / item_bytes) return count;
    fail();
    return 0;
  }
  /// Declares that a field is invalid. For a caller that checks the value of the field itself.
  void fail() {
    has_failed_ = true;
    if (on_error_ != nullptr) on_error_();
  }
  /// Whether every field was present and valid and no bytes are left.
  bool is_whole() const { return !has_failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  void (*on_error_)();
  bool has_failed_ = false;
};

}  // namespace horo
