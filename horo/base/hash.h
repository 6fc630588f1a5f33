#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace horo {

/// The 64-bit FNV-1a hash, for signatures that ranks compare. Not for untrusted input.
class Hash {
 public:
  Hash& add_bytes(const void* data, std::size_t bytes) {
    const auto* cursor = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ cursor[i]) * 0x100000001b3ull;
    return *this;
  }
  Hash& add(std::uint64_t number) { return add_bytes(&number, sizeof number); }
  Hash& add(std::string_view text) { return add(text.size()).add_bytes(text.data(), text.size()); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

/// Hashes a large block of memory, much faster than Hash. Different blocks have equal hashes with a
/// probability of about 2^-64. Depends on the byte order of the machine. Not for untrusted input.
std::uint64_t hash_contents(const void* data, std::size_t bytes);

}  // namespace horo
