#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace horo::observe {

/// The waits for other ranks that a coordinator or a plan of this rank has found. A coordinator
/// notes named operations that some ranks have not submitted. A plan notes an update that some
/// ranks have not called. The notes name the missing ranks, even if the watchdogs cannot reach each
/// other. The watchdog of the rank decides whether to log a noted wait. Thread-safe.
class LongWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Notes a wait that has lasted for `age` and that `text` describes. Replaces the earlier note of
  /// the same name. A note is valid until kValidFor after `now`. The caller must repeat the note
  /// while the wait lasts, and need not withdraw it.
  void note(const std::string& name, std::chrono::nanoseconds age, std::string text, Time now);

  struct Wait {
    std::string name;
    std::chrono::nanoseconds age;
    std::string text;
  };
  /// Returns the notes that are valid at `now`, in order of name.
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

// A coordinator calls this function while it negotiates, so the function holds the lock for one map
// access only. It takes no other lock meanwhile.
inline void LongWaits::note(const std::string& name, std::chrono::nanoseconds age, std::string text,
                            Time now) {
  const std::scoped_lock lock(mutex_);
  notes_[name] = {age, std::move(text), now};
}

// Only the watchdog's thread calls this function, while other threads note waits. The result is a
// copy, so that the caller does not hold the lock while it logs.
inline std::vector<LongWaits::Wait> LongWaits::current(Time now) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(notes_, [&](const auto& item) { return now - item.second.noted_at > kValidFor; });
  std::vector<Wait> waits;
  for (const auto& [name, note] : notes_) waits.push_back({name, note.age, note.text});
  return waits;
}

}  // namespace horo::observe
