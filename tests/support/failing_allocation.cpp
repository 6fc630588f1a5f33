#include "tests/support/failing_allocation.h"

#include <cstdlib>
#include <new>

namespace horo {

std::atomic<std::size_t> failing_allocation_bytes{0};

}  // namespace horo

// NOLINTBEGIN: replaces the allocation functions of the whole program
void* operator new(std::size_t bytes) {
  const std::size_t failing = horo::failing_allocation_bytes.load();
  if (failing > 0 && bytes >= failing) {
    horo::failing_allocation_bytes = 0;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND
