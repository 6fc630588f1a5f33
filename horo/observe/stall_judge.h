#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// Decides from pictures of the ranks, taken again and again, what is said and when the job ends.
/// Pure but for what it remembers. Used by one thread.
class StallJudge {
 public:
  struct Decision {
    std::optional<std::string> say;        ///< a line or a few for the console
    std::optional<std::string> end;        ///< why the job ends now: what all waits are to throw
    std::optional<std::string> note = {};  ///< a line for the console about what is no stall
  };

  /// A stall is told after `stall_warning`, once newer pictures of the ranks that wait confirm it;
  /// at once where a rank is dead, stopped or silent, and of that what it keeps once others have
  /// waited a third as long; again after four times as long, and when it is over. After `timeout`
  /// it ends the job; a dead rank does at once, one that has left in good order while others wait
  /// for it when it is told.
  ///
  /// `ends_later`: how long after `timeout` it ends the job for the silence of a rank, where
  /// another judge that sees more is to decide first.
  StallJudge(std::chrono::nanoseconds stall_warning, std::chrono::nanoseconds timeout,
             std::chrono::nanoseconds ends_later = std::chrono::nanoseconds(0));

  /// A pause that has lasted for `timeout` is noted, and again after each more; it ends nothing.
  /// A callback that has run for `stall_warning` is noted, and again after each `timeout`.
  /// `unheard`: ranks of which nothing is known yet. Members of an operation are blamed, once they
  /// are silent, for what no other rank keeps. As they may only be out of the watchdogs' reach, the
  /// job ends when the operation has lasted for `timeout`, however long they have been silent.
  Decision look(std::vector<RankSnapshot> ranks, WallTime now,
                std::span<const RankSnapshot> unheard = {});
  /// Whether a rank that runs was in a pause at the last look.
  bool is_paused() const { return is_paused_; }
  /// Somebody else judges from now on, who does not know what was told here: says that it is over.
  std::optional<std::string> resign(WallTime now);
  /// What came before `now` does not count: the one who watches was asleep himself.
  void start_anew(WallTime now);

 private:
  struct Told {
    Verdict::Kind kind = Verdict::Kind::kNone;
    std::vector<int> blamed;
    std::string names;       // of the blamed
    WallTime since = 0;      // the first time that it was seen
    WallTime last_said = 0;  // 0: not yet
    std::string awaited;     // in what was said last
    bool is_wait_told = false;
    std::string operation = {};  // Verdict::operation
  };
  bool is_due(const Verdict& verdict, WallTime now);
  Decision decide(std::vector<RankSnapshot> ranks, WallTime now,
                  std::span<const RankSnapshot> unheard);
  std::optional<std::string> note_pauses(const std::vector<RankSnapshot>& ranks, WallTime now);
  std::optional<std::string> note_callbacks(const std::vector<RankSnapshot>& ranks, WallTime now);
  static bool is_of(const Told& told, const Verdict& verdict);
  bool is_confirmed(const Verdict& verdict, const std::vector<RankSnapshot>& ranks, WallTime now);
  void forgive(std::vector<RankSnapshot>& ranks, WallTime now);
  std::vector<RankSnapshot> possible_keepers(const std::vector<RankSnapshot>& ranks,
                                             std::span<const RankSnapshot> unheard, WallTime now,
                                             std::chrono::nanoseconds lasting) const;
  WallTime silent_since(const Verdict& verdict, const std::vector<RankSnapshot>& ranks) const;
  bool is_over(const Verdict& verdict, const std::vector<RankSnapshot>& ranks, WallTime now) const;

  std::chrono::nanoseconds stall_warning_;
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds ends_later_;
  WallTime not_before_ = 0;
  WallTime woken_ = 0;          // the latest start_anew()
  WallTime pause_told_ = 0;     // 0: no pause that lasts has been
  WallTime callback_told_ = 0;  // 0: no callback that lasts has been
  Told seen_, told_;            // the latest verdict, and the latest that was confirmed
  bool is_paused_ = false;
  bool has_ended_ = false;
};

}  // namespace horo::observe
