#include "horo/runtime/open_sets.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

constexpr int kMostNumbers = 8;

}  // namespace

int OpenSets::number_of(const std::vector<int>& ranks) {
  const std::scoped_lock lock(mutex_);
  return numbers_[ranks]++ % kMostNumbers + 1;
}

// in_use_ holds weak pointers, because the program owns the sets. Removes expired pointers, so that
// the list does not grow without limit.
void OpenSets::add(const std::shared_ptr<Runtime>& set) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(in_use_, [](const auto& other) { return other.expired(); });
  in_use_.push_back(set);
}

// The set stays in retired_ until it is closed, because the other members may still use it and its
// coordinator must take part in their negotiation. Sets are destroyed after the lock is released,
// because destruction joins threads. After finish(), no later call would release the set, so
// retire() closes the set itself.
void OpenSets::retire(std::shared_ptr<Runtime> set) {
  set->begin_shut_down();
  {
    const std::scoped_lock lock(mutex_);
    if (!is_finished_) retired_.push_back(std::exchange(set, nullptr));
  }
  sweep();
  if (set == nullptr) return;
  try {
    set->shut_down();
  } catch (const std::exception& error) {
    log_debug("a process set was closed without the agreement of its members: {}", error.what());
  }
}

// Closes the sets that the program still holds, too. All sets start to close before this rank waits
// for any set, so members may close the sets in different orders.
void OpenSets::begin_closing() {
  std::vector<std::shared_ptr<Runtime>> sets;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& weak : in_use_)
      if (auto set = weak.lock(); set && std::ranges::find(retired_, set) == retired_.end())
        sets.push_back(std::move(set));
    retired_.insert(retired_.end(), sets.begin(), sets.end());
  }
  for (const auto& set : sets) set->begin_shut_down();
}

// Sets is_finished_ in the same critical section that takes the retired sets. So a concurrent
// retire() either adds its set before this section or closes the set itself. Closes all sets even
// if one fails, and then rethrows the last error.
void OpenSets::finish() {
  std::vector<std::shared_ptr<Runtime>> sets;
  {
    const std::scoped_lock lock(mutex_);
    is_finished_ = true;
    sets = std::exchange(retired_, {});
  }
  std::exception_ptr error;
  for (const auto& set : sets) {
    try {
      set->shut_down();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void OpenSets::sweep() { take_closed(); }

// The caller destroys the result outside the lock, because the destructor of a set joins threads.
std::vector<std::shared_ptr<Runtime>> OpenSets::take_closed() {
  const std::scoped_lock lock(mutex_);
  const auto closed = std::stable_partition(retired_.begin(), retired_.end(),
                                            [](const auto& set) { return !set->is_closed(); });
  std::vector<std::shared_ptr<Runtime>> taken(std::make_move_iterator(closed),
                                              std::make_move_iterator(retired_.end()));
  retired_.erase(closed, retired_.end());
  return taken;
}

}  // namespace horo
