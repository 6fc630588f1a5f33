#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace horo::plan {

/// Computes on the values of the gradients of a plan, in the memory that holds them. The hooks of a
/// step use this interface, so that a hook is written once for host and device memory.
///
/// In host memory, the functions return when their work is complete. In device memory, the
/// functions enqueue their work, in the order of the calls, and only findings() returns values.
/// BucketScheduler orders that work with the exchange of the buckets. Used by one thread at a time.
class GradientMemory {
 public:
  /// A value that is infinite or NaN.
  struct NonFinite {
    std::uint64_t gradient = 0;
    std::uint64_t index = 0;
    double value = 0;
  };
  /// What the functions have found in one step.
  struct Findings {
    /// The L2 norm of the reduced gradients except metrics, before clipping. Squares are summed in
    /// float64, in an order that depends only on the gradients.
    double norm = 0;
    bool was_clipped = false;
    /// The first non-finite value before the exchange, and in the reduced gradients. "First" refers
    /// to the order of registration and then to the order of the elements.
    std::optional<NonFinite> own, reduced;
  };

  virtual ~GradientMemory() = default;

  /// Forgets what was found in the previous step.
  virtual void begin_step() = 0;
  /// Looks for non-finite values in `gradients`, before their exchange.
  virtual void examine_own(const std::vector<std::size_t>& gradients) = 0;
  /// Adds the squares of the values of `gradients` and looks for non-finite values, after their
  /// exchange.
  virtual void examine_reduced(const std::vector<std::size_t>& gradients) = 0;
  /// If all values that examine_reduced() has seen are finite and their norm is finite and above
  /// `max_norm`, scales all gradients except metrics to this norm.
  virtual void clip(std::optional<double> max_norm) = 0;
  /// Sets all values of all gradients to zero, even if they are NaN or infinite.
  virtual void set_zero() = 0;
  /// Returns the result of the latest complete step. Requires that clip() was called in that step
  /// and that the work of that step is complete.
  virtual Findings findings() = 0;
};

}  // namespace horo::plan
