#pragma once

#include <cstdint>

#include "horo/horo.h"

namespace horo::ops {

/// Counts the control messages that training steps cause, apart from what happens between them
/// (evaluation, broadcast). Used from one thread.
class ControlMessageCount {
 public:
  explicit ControlMessageCount(const Context& context) : context_(context) {}

  void begin_step() { before_ = context_.counters().control_messages_sent; }
  void end_step() {
    // The first step may still set things up.
    if (steps_++ > 0) messages_ += context_.counters().control_messages_sent - before_;
  }
  std::uint64_t messages() const { return messages_; }
  /// Steps the messages were counted in.
  std::uint64_t steps() const { return steps_ > 0 ? steps_ - 1 : 0; }

 private:
  const Context& context_;
  std::uint64_t before_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace horo::ops
