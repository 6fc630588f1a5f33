#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace horo::observe {

/// Waits for other ranks that parts of this rank have found: the coordinator for named operations,
/// a plan for its update. They can determine which ranks are missing even if the watchdogs cannot
/// reach each other. They only note the waits; the watchdog of the rank decides whether to log
/// them. Thread-safe.
class LongWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A wait of `age`, described by `text`. Replaces the earlier note of the same name. A note is
  /// valid for kValidFor, so the caller repeats it while the wait lasts and need not withdraw it.
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

// The lock is held for one map access. A caller may hold the ownership of the coordinator's rounds;
// no lock is taken inside this one.
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
