#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "horo/plan/step_hook.h"

namespace horo::plan {

/// Records which gradients are marked ready in the current pass and in earlier passes of the same
/// step. mark() is thread-safe. The caller must call the other functions from one thread, while no
/// thread calls mark(). Relaxed order is enough for the marks, because the counters of
/// BucketScheduler publish the values of the gradients.
class GradientMarks {
 public:
  explicit GradientMarks(std::size_t gradients)
      : is_marked_(gradients), was_marked_(gradients, 0) {}

  std::size_t size() const { return is_marked_.size(); }
  /// Returns false if the gradient was already marked in this pass.
  bool mark(std::size_t gradient) {
    return !is_marked_[gradient].exchange(true, std::memory_order_relaxed);
  }
  /// Withdraws a mark of this pass.
  void unmark(std::size_t gradient) {
    is_marked_[gradient].store(false, std::memory_order_relaxed);
  }
  bool is_marked(std::size_t gradient) const {
    return is_marked_[gradient].load(std::memory_order_relaxed);
  }
  bool are_all_marked() const {
    return std::ranges::all_of(is_marked_, [](const auto& mark) { return mark.load(); });
  }
  bool is_any_marked() const {
    return std::ranges::any_of(is_marked_, [](const auto& mark) { return mark.load(); });
  }
  /// Whether a gradient was marked in an earlier pass of this step.
  bool has_earlier_marks() const {
    return has_earlier_pass_ && std::ranges::any_of(was_marked_, [](std::uint8_t was_marked) {
             return was_marked != 0;
           });
  }
  /// The gradients that were not marked in any pass of this step, ascending.
  std::vector<std::size_t> unmarked_in_step() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < size(); ++i)
      if (!is_marked_[i].load(std::memory_order_relaxed) && was_marked_[i] == 0) found.push_back(i);
    return found;
  }

  /// Ends a pass that is not the last of its step.
  void end_pass() {
    has_earlier_pass_ = true;
    for (std::size_t i = 0; i < size(); ++i)
      was_marked_[i] |=
          static_cast<std::uint8_t>(is_marked_[i].exchange(false, std::memory_order_relaxed));
  }
  void end_step() {
    if (std::exchange(has_earlier_pass_, false)) std::ranges::fill(was_marked_, std::uint8_t{0});
    for (std::atomic<bool>& mark : is_marked_) mark.store(false, std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<bool>> is_marked_;
  std::vector<std::uint8_t> was_marked_;
  bool has_earlier_pass_ = false;  // if false, was_marked_ is all zero
};

/// Finds the gradients that no rank has marked in any pass of a step. Costs an allreduce of one
/// byte per gradient in each step.
class UnusedGradients : public StepHook {
 public:
  explicit UnusedGradients(std::size_t gradients) : is_unused_(gradients, 0) {}

  /// Declares that this rank has not marked `gradient` in the current step. The thread that ends
  /// the step must call note() before BucketScheduler::wait().
  void note(std::size_t gradient) { is_unused_[gradient] = 1; }

  void end_exchange(StepExchange& step) override;

 private:
  std::vector<std::uint8_t> is_unused_;
};

/// Packs the gradients of a plan again, in the order in which rank 0 marked them in the last pass
/// of the first step. Rank 0 sends that order to the other ranks in the exchange of the second
/// step, and the third step is the first with the new buckets. Costs one broadcast of 8 bytes per
/// gradient.
class MarkOrder : public StepHook {
 public:
  explicit MarkOrder(std::size_t gradients) : positions_(gradients) {}

  /// Records that `gradient` is marked now. Thread-safe. Does nothing after the first step.
  void note(std::size_t gradient) {
    if (stage_ == Stage::kNoting) positions_[gradient] = ++noted_;
  }
  /// Whether the gradients are packed in their final order.
  bool is_done() const { return stage_ == Stage::kDone; }
  /// Discards the marks of a pass that is not the last of its step. No thread may mark meanwhile.
  void end_pass();

  void begin_exchange(StepExchange& step) override;
  void end_step(BucketScheduler& scheduler, const StepReport& report) override;

 private:
  enum class Stage { kNoting, kAgreeing, kDone };

  Stage stage_ = Stage::kNoting;                       // changes only between steps
  std::vector<std::atomic<std::uint64_t>> positions_;  // 0 if not noted
  std::atomic<std::uint64_t> noted_{0};
  // The buffer of the broadcast. If the broadcast fails, the communicator may still write to
  // order_. So the hooks of a plan must outlive its communicators.
  std::vector<std::int64_t> order_;
};

}  // namespace horo::plan
