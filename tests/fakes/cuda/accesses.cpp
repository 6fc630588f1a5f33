#include "tests/fakes/cuda/accesses.h"

#include <algorithm>

namespace horo::fakes {
namespace {

thread_local RecordedAccesses* recorder = nullptr;  // NOLINT

void record(const void* address, std::size_t bytes, bool is_write) {
  if (recorder != nullptr && Memory::of_process().contains(address))
    recorder->add(address, bytes, is_write);
}

}  // namespace

RecordedAccesses::RecordedAccesses(const Actor& actor) : actor_(actor) { recorder = this; }
RecordedAccesses::~RecordedAccesses() { recorder = nullptr; }

RecordedAccesses::Page& RecordedAccesses::page_of(std::uintptr_t address) {
  if (latest_page_ == nullptr || latest_ != address) {
    latest_page_ = &pages_[address];
    latest_ = address;
  }
  return *latest_page_;
}

// The block is looked up at the first access to a byte only.
void RecordedAccesses::add(const void* address, std::size_t bytes, bool is_write) {
  const std::uint8_t flag = is_write ? kWrite : kRead;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  bool is_new = false;
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    Page& page = page_of(at / kPage * kPage);
    const std::size_t first = at % kPage, last = std::min(kPage, first + (begin + bytes - at));
    for (std::size_t i = first; i < last; ++i) {
      is_new |= page[i] == 0;
      page[i] |= flag;
    }
    at += last - first;
  }
  if (is_new) Memory::of_process().require_live(actor_, address, bytes);
}

void RecordedAccesses::note(const Moment& moment) const {
  note(moment, kRead);
  note(moment, kWrite);
}

void RecordedAccesses::note(const Moment& moment, std::uint8_t flag) const {
  std::uintptr_t begin = 0, end = 0;
  const auto flush = [&] {
    if (end > begin)
      Memory::of_process().note(
          actor_, moment, {reinterpret_cast<const void*>(begin), end - begin, flag == kWrite});
  };
  for (const auto& [address, page] : pages_) {
    for (std::size_t i = 0; i < kPage; ++i) {
      if ((page[i] & flag) == 0) continue;
      if (end != address + i) {
        flush();
        begin = address + i;
      }
      end = address + i + 1;
    }
  }
  flush();
}

}  // namespace horo::fakes

// The functions that g++ -fsanitize=thread calls before each access to memory.
// NOLINTBEGIN
extern "C" {

using horo::fakes::record;

#define HORO_ACCESS(bytes)                                                            \
  void __tsan_read##bytes(void* address) { record(address, bytes, false); }           \
  void __tsan_write##bytes(void* address) { record(address, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* address) { record(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { record(address, bytes, true); } \
  void __tsan_volatile_read##bytes(void* address) { record(address, bytes, false); }  \
  void __tsan_volatile_write##bytes(void* address) { record(address, bytes, true); }
HORO_ACCESS(1)
HORO_ACCESS(2)
HORO_ACCESS(4)
HORO_ACCESS(8)
HORO_ACCESS(16)
#undef HORO_ACCESS

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* address, unsigned long bytes) { record(address, bytes, false); }
void __tsan_write_range(void* address, unsigned long bytes) { record(address, bytes, true); }

// Atomic operations order accesses, so they are not recorded.
#define HORO_ATOMIC(bits, Type)                                                                    \
  Type __tsan_atomic##bits##_load(const volatile Type* at, int) {                                  \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile Type* at, Type value, int) {                           \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                \
  Type __tsan_atomic##bits##_exchange(volatile Type* at, Type value, int) {                        \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                                \
  Type __tsan_atomic##bits##_fetch_add(volatile Type* at, Type value, int) {                       \
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                        \
  }                                                                                                \
  Type __tsan_atomic##bits##_fetch_sub(volatile Type* at, Type value, int) {                       \
    return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);                                        \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile Type* at, Type* expected, Type value, \
                                                    int, int) {                                    \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,               \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile Type* at, Type* expected, Type value,   \
                                                  int, int) {                                      \
    return __atomic_compare_exchange_n(at, expected, value, true, __ATOMIC_SEQ_CST,                \
                                       __ATOMIC_SEQ_CST);                                          \
  }
HORO_ATOMIC(8, unsigned char)
HORO_ATOMIC(32, unsigned)
HORO_ATOMIC(64, unsigned long)
#undef HORO_ATOMIC
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
// NOLINTEND
