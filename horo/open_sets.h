#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace horo {

class Runtime;

/// The process sets made from one runtime. A set that its owner gives up goes on here until its
/// other members have given it up too, so that nobody has to wait for them. Thread-safe.
class OpenSets {
 public:
  /// The number that tells the set that is being made from others of the same ranks. Numbers come
  /// round again, so that a program which makes a set now and then does not use up names.
  int number_of(const std::vector<int>& ranks);
  void add(const std::shared_ptr<Runtime>& set);
  /// Takes over a set that nobody uses any more; it closes when all its members have done the same.
  /// After finish() it is closed here and now.
  void retire(std::shared_ptr<Runtime> set);
  /// Begins to close all sets, without waiting.
  void begin_closing();
  /// Waits until all are closed. Throws the error of one that was not closed in agreement.
  void finish();
  /// Releases the memory of retired sets that have closed meanwhile.
  void sweep();

 private:
  std::vector<std::shared_ptr<Runtime>> take_closed();

  std::mutex mutex_;  // guards all below
  std::map<std::vector<int>, int> numbers_;
  std::vector<std::weak_ptr<Runtime>> in_use_;
  std::vector<std::shared_ptr<Runtime>> retired_;
  bool is_finished_ = false;
};

}  // namespace horo
