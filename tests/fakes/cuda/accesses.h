#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "tests/fakes/cuda/memory.h"

namespace horo::fakes {

/// Records which bytes of the fake's memory the calling thread reads and writes while the object
/// exists, in code that is compiled with -fsanitize=thread (the kernels). An access outside of a
/// live block is a violation at once.
class RecordedAccesses {
 public:
  explicit RecordedAccesses(const Actor& actor);
  ~RecordedAccesses();
  RecordedAccesses(const RecordedAccesses&) = delete;
  RecordedAccesses& operator=(const RecordedAccesses&) = delete;

  void add(const void* address, std::size_t bytes, bool is_write);
  /// Passes the recorded ranges to Memory::note().
  void note(const Moment& moment) const;

 private:
  static constexpr std::size_t kPage = 4096;
  enum : std::uint8_t { kRead = 1, kWrite = 2 };
  using Page = std::array<std::uint8_t, kPage>;  // flags of each byte

  Page& page_of(std::uintptr_t address);
  void note(const Moment& moment, std::uint8_t flag) const;

  const Actor& actor_;
  std::map<std::uintptr_t, Page> pages_;  // by the address of their first byte
  std::uintptr_t latest_ = 0;
  Page* latest_page_ = nullptr;
};

}  // namespace horo::fakes
