#include "horo/coordinator/charge.h"

#include "horo/base/futex.h"

namespace horo::coordinator {

void Charge::give_back() {
  is_taken_ = false;
  wake();
}

void Charge::wake() {
  ++changes_;
  if (is_standing_by_) futex_wake_all(changes_);
}

void Charge::stand_by(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  is_standing_by_ = true;
  if (changes_ == seen) futex_wait(changes_, seen, timeout);
  is_standing_by_ = false;
}

}  // namespace horo::coordinator
