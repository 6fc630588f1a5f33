#pragma once

#include <optional>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/plan/gradients/gradient_memory.h"

namespace horo::plan {

/// The values of gradients in host memory. Each function makes one pass over the values that it
/// names.
class HostGradientMemory : public GradientMemory {
 public:
  /// `is_metric[i]` is whether gradient i is not included in the norm and not clipped.
  HostGradientMemory(std::vector<NamedTensor> gradients, std::vector<bool> is_metric);

  void begin_step() override;
  void examine_own(const std::vector<std::size_t>& gradients) override;
  void examine_reduced(const std::vector<std::size_t>& gradients) override;
  void clip(std::optional<double> max_norm) override;
  void set_zero() override;
  Findings findings() override { return findings_; }

  /// Multiplies the values of one gradient by `factor`.
  void scale(std::size_t gradient, double factor) const;
  void set_zero(std::size_t gradient) const;

 private:
  void find_in_own(std::size_t gradient);
  std::optional<NonFinite> find_in(std::size_t gradient) const;
  std::optional<NonFinite> find_in_reduced() const;
  double norm() const;

  const std::vector<NamedTensor> gradients_;
  const std::vector<bool> is_metric_;
  std::vector<double> squares_;  // sum of the squares of each reduced gradient
  Findings findings_;
};

}  // namespace horo::plan
