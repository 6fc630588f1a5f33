#include "collectives/shared_memory/flag.h"

namespace horo::collectives {
namespace {

struct Sleeper {
  explicit Sleeper(std::atomic<std::uint32_t>& counter) : count(counter) {}
  ~Sleeper() {
    if (is_counted) count.fetch_sub(1);
  }
  void announce() {
    if (!is_counted) count.fetch_add(1);
    is_counted = true;
  }
  std::atomic<std::uint32_t>& count;
  bool is_counted = false;
};

}  // namespace

bool Flag::wait(std::uint32_t target, const Flag& departed, const WaitPolicy& policy,
                std::string_view what) {
  Waiter waiter(policy);
  Sleeper sleeper(sleepers);
  while (true) {
    const std::uint32_t seen = value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - target) >= 0) return true;
    // What it published before it left counts.
    if (departed.reached(1)) return reached(target);
    if (waiter.is_napping()) sleeper.announce();
    waiter.pause_on(value, seen, what);
  }
}

}  // namespace horo::collectives
