#pragma once

#include <optional>
#include <string_view>

#include "horo/horo.h"
#include "ops/train/step_timer.h"

namespace horo::ops {

/// Tells horo which phase of a step the rank is in (Context::phase), for its reports: "data",
/// "forward", "backward", "update". What a step waits for the other ranks is in none, so that
/// nobody's waiting looks like somebody's work. Used from one thread.
class PhaseMarks {
 public:
  /// `context` outlives this.
  explicit PhaseMarks(Context& context) : context_(context) {}

  /// Leaves the phase under way and is in `phase`.
  void enter(Phase phase);
  void leave() { current_.reset(); }

 private:
  Context& context_;
  std::optional<horo::Phase> current_;
};

/// What reports call the phase; empty: it is none.
std::string_view mark_of(Phase phase);

}  // namespace horo::ops
