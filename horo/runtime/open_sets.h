#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace horo {

class Runtime;

/// The process sets made from one runtime. A retired set stays in this object until its shutdown
/// has ended. Thread-safe.
class OpenSets {
 public:
  /// Returns a number that differs from those of the 7 previous sets with the same ranks. The
  /// numbers 1 to 8 are reused in turn, so a program that makes sets repeatedly has a bounded
  /// number of names. All members get the same number if they make their sets in the same order.
  int number_of(const std::vector<int>& ranks);
  void add(const std::shared_ptr<Runtime>& set);
  /// Takes over `set`, the runtime of a ProcessSet that the program has destroyed, and starts to
  /// close it. The set closes when all its members have retired or closed it. Does not wait for
  /// them before finish(). After finish(), waits for the other members.
  void retire(std::shared_ptr<Runtime> set);
  /// Starts to close all sets. Does not wait for other ranks.
  void begin_closing();
  /// Waits until all retired sets, and those that begin_closing() has found, are closed. If sets
  /// did not close on all members, throws the error of the last of them.
  void finish();
  /// Destroys retired sets that have closed.
  void sweep();

 private:
  std::vector<std::shared_ptr<Runtime>> take_closed();

  // Guards the members below. No thread holds mutex_ while it calls a function of a set that waits
  // or locks a mutex.
  std::mutex mutex_;
  std::map<std::vector<int>, int> numbers_;
  std::vector<std::weak_ptr<Runtime>> in_use_;
  std::vector<std::shared_ptr<Runtime>> retired_;
  bool is_finished_ = false;
};

}  // namespace horo
