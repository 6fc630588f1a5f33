#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace horo::observe {

/// Puts fields one after the other into bytes, little-endian.
class FieldWriter {
 public:
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void put(T value) { append(std::as_bytes(std::span(&value, 1))); }
  /// At most the first `limit` bytes of `text`.
  void put_text(std::string_view text, std::size_t limit) {
    text = text.substr(0, limit);
    put(static_cast<std::uint32_t>(text.size()));
    append(std::as_bytes(std::span(text)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    append(bytes);
  }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(std::span<const std::byte> bytes) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes.size());
    if (!bytes.empty()) std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }
  std::vector<std::byte> bytes_;
};

/// Takes them apart again, from bytes that may be anything: once something is missing or senseless,
/// every further field is empty and is_whole() is false. Borrows the bytes.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_integral_v<T> T get() {
    T value{};
    const auto raw = take(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  /// An enumerator below `count`, stored as its underlying type.
  template <typename Enum>
  Enum get_enum(int count) {
    const auto value = get<std::underlying_type_t<Enum>>();
    if (value >= 0 && static_cast<std::int64_t>(value) < count) return static_cast<Enum>(value);
    has_failed_ = true;
    return Enum{};
  }
  std::string get_text() {
    const auto raw = get_bytes();
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::span<const std::byte> get_bytes() { return take(get<std::uint32_t>()); }
  /// The length of a list whose items take at least `item_bytes` each.
  std::size_t get_count(std::size_t item_bytes) {
    const auto count = get<std::uint32_t>();
    if (count <= rest_.size() / item_bytes) return count;
    has_failed_ = true;
    return 0;
  }
  /// Whether all fields were there, and nothing else.
  bool is_whole() const { return !has_failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (has_failed_ || count > rest_.size()) {
      has_failed_ = true;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::span<const std::byte> rest_;
  bool has_failed_ = false;
};

}  // namespace horo::observe
