#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace horo::observe {

/// The waits for other ranks that other components of this rank have found. The coordinator finds
/// waits in named operations, and a plan finds waits for the update of the plan. These components
/// can determine which ranks are missing even if the watchdogs cannot reach each other. The
/// components only note the waits. The watchdog of the rank decides whether to log a wait.
/// Thread-safe.
class LongWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Notes a wait of `age`, described by `text`. Replaces the earlier note of the same name. A note
  /// is valid for kValidFor. The caller must repeat the note while the wait lasts, and need not
  /// withdraw it.
  void note(const std::string& name, std::chrono::nanoseconds age, std::string text, Time now);

  struct Wait {
    std::string name;
    std::chrono::nanoseconds age;
    std::string text;
  };
  /// Returns the valid notes in order of name.
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

// The thread that runs the coordinator's rounds may call this function. Therefore the function
// holds the lock for one map access only, and takes no other lock meanwhile.
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
