#include "horo/base/system/threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace horo {
namespace {

constexpr std::uint64_t kSliceNanoseconds = 100'000;  // the minimum that Linux accepts

// struct sched_attr of the kernel. <linux/sched/types.h> conflicts with <sched.h>.
struct SchedulingAttributes {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

// Older C libraries have no wrappers for these system calls. Failures are ignored, because short
// slices only reduce latency.
void ask_for_short_slices() noexcept {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime = kSliceNanoseconds;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace horo
