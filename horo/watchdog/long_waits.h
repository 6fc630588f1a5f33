#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace horo::observe {

/// Waits for other ranks that other components of this rank have found: the coordinator for named
/// operations, a plan for its update. These components can determine which ranks are missing even
/// if the watchdogs cannot reach each other. They only note the waits. The watchdog of the rank
/// decides whether to log them. Thread-safe.
class LongWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Notes a wait of `age`, described by `text`. Replaces the earlier note of the same name. A note
  /// is valid for kValidFor, so the caller repeats it while the wait lasts and need not withdraw
  /// it.
  void note(const std::string& name, std::chrono::nanoseconds age, std::string text, Time now);

  struct Wait {
    std::string name;
    std::chrono::nanoseconds age;
    std::string text;
  };
  /// Returns the valid notes, by name.
  std::vector<Wait> current(Time now);

  static constexpr std::chrono::seconds kValidFor{1};

 private:
  struct Note {
    std::chrono::nanoseconds age;
    std::string text;
    Time noted_at;
  };
  std::mutex mutex_;  // guards notes_
  std::map<std::string, Note> notes_;
};

// Holds the lock for one map access and takes no other lock meanwhile. The caller may own the
// coordinator's rounds.
inline void LongWaits::note(const std::string& name, std::chrono::nanoseconds age, std::string text,
                            Time now) {
  const std::scoped_lock lock(mutex_);
  notes_[name] = {age, std::move(text), now};
}

// Called by the watchdog's thread only, while other threads note waits. Copies the notes, so that
// logging does not hold the lock.
inline std::vector<LongWaits::Wait> LongWaits::current(Time now) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(notes_, [&](const auto& item) { return now - item.second.noted_at > kValidFor; });
  std::vector<Wait> waits;
  for (const auto& [name, note] : notes_) waits.push_back({name, note.age, note.text});
  return waits;
}

}  // namespace horo::observe
