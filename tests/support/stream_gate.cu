#include <atomic>

#include "horo/device/launch.h"
#include "tests/support/stream_gate.h"

namespace horo::device {
namespace {

constexpr int kOpen = 1;

struct WaitUntilOpen {
  int* flag;

  HORO_KERNEL void operator()(const ThreadIndex&) const {
#if defined(__CUDA_ARCH__)
    while (*static_cast<volatile int*>(flag) != kOpen) __nanosleep(1000);
#else
    while (std::atomic_ref(*flag).load(std::memory_order_acquire) != kOpen) {
    }
#endif
  }
};

}  // namespace

StreamGate::StreamGate(Device& device) : flag_(device.allocate_pinned(sizeof(int))) {
  *reinterpret_cast<int*>(flag_.data()) = 0;
}

StreamGate::~StreamGate() { open(); }

void StreamGate::hold(Stream& stream) {
  launch(stream, {1, 1}, WaitUntilOpen{reinterpret_cast<int*>(flag_.data())});
}

void StreamGate::open() {
  std::atomic_ref(*reinterpret_cast<int*>(flag_.data())).store(kOpen, std::memory_order_release);
}

}  // namespace horo::device
