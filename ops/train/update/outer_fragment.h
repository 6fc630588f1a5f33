#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/optim/sgd.h"
#include "ops/train/update/local_steps.h"

namespace horo::ops {

/// How the changes of fragments are sent; see GradientSyncOptions.
struct OuterExchange {
  Compression compression{};
  std::optional<DataType> wire{};
};

/// Some parameters of a model, in host memory, whose agreed values change by exchanges between the
/// ranks; see LocalSteps. An exchange is launch(), wait(), then update() or average(). All ranks
/// call the functions in the same order. Used from one thread.
class OuterFragment {
 public:
  /// The agreed values start as the values of `own`, which must be equal on all ranks. Borrows all
  /// arguments. Collective. `name`: of the exchange.
  OuterFragment(Context& context, std::span<Parameter* const> own, const std::string& name,
                const LocalSteps& steps, const OuterExchange& exchange);

  /// Starts the exchange of the changes, agreed minus own values. Does not block; the own values
  /// may change afterwards. `merge_after`: the number of steps that merge_after() returns until the
  /// exchange ends.
  void launch(std::uint64_t merge_after);
  /// Blocks until the average changes are known.
  void wait();
  /// 0: no exchange is in flight.
  std::uint64_t merge_after() const { return static_cast<std::uint64_t>(merge_after_); }

  /// Ends an exchange: the outer optimizer changes the agreed values by the average changes. Own
  /// values become `mixing` times themselves plus the rest of the agreed ones.
  void update(float mixing);
  /// Ends an exchange: own and agreed values become the average of the own values of all ranks.
  void average();
  /// Ends an exchange: own values become the agreed ones, which do not change.
  void reject();
  /// After wait(): the first parameter with an average change that is not finite, the same on all
  /// ranks; null: none.
  const Parameter* first_non_finite() const;

  /// Exchanges own and agreed values in the parameters of the model; a second call reverts it. Must
  /// be reverted before other functions are called.
  void swap_values();
  GradientSync& sync() { return sync_; }

  /// Own values, the state of the outer optimizer, and that of an exchange in flight, as tensors
  /// that borrow the memory of this object. Blocks until the average changes are known.
  std::vector<NamedTensor> state();
  /// The caller has replaced the values of state().
  void restored() { is_reduced_ = merge_after_ > 0; }

 private:
  void take_agreed(float mixing);

  std::vector<Parameter*> own_;
  std::deque<Parameter> outer_;  // agreed values; their gradients are the changes
  Sgd optimizer_;
  GradientSync sync_;
  const std::string name_;
  const bool has_overlap_;
  std::int64_t merge_after_ = 0;
  bool is_reduced_ = false;
};

}  // namespace horo::ops
