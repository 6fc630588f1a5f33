#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/optim/adamw.h"
#include "ops/optim/orthogonaliser.h"

namespace horo::ops {

/// The options of Muon.
struct MuonOptions {
  /// Of all parameters. Learning rates and weight decays that suit AdamW suit Muon too, since the
  /// updates of matrices are scaled to the size of those of AdamW.
  AdamWOptions adamw;
  float momentum = 0.95f;  ///< in [0, 1)
  bool nesterov = true;    ///< use Nesterov momentum
  /// Names of matrices that AdamW updates, with the wildcards of ParameterRule: usual for
  /// embeddings and for the output layer.
  std::vector<std::string> by_adamw = {"*embedding*", "output.*"};
};

/// Muon for matrices, and AdamW for vectors and chosen matrices. In a step, per matrix [rows,
/// columns] (filters are matrices of `out` rows):
///   m = momentum * m + (1 - momentum) * gradient;
///   d = nesterov ? momentum * m + (1 - momentum) * gradient : m;
///   value -= learning_rate * (0.2 sqrt(max(rows, columns)) * orthogonal(d / |d|)
///                             + weight_decay * value),
/// where orthogonal() is that of Orthogonaliser. The state "first_moment" is m; "second_moment" is
/// empty for matrices, so that they need half the memory of AdamW. On a device nothing blocks.
/// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024); scale
/// and decay of Liu et al., "Muon is scalable for LLM training" (2025).
class Muon : public AdamW {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range, and for coupled_decay.
  Muon(std::vector<Parameter*> parameters, const MuonOptions& options);

  bool needs_whole_parameters() const override { return true; }

 private:
  std::string describe_options() const override;
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;
  void enter_device() override;
  void leave_device() override;
  void make_orthogonal(std::size_t index, Tensor& direction);

  const MuonOptions muon_;
  std::vector<bool> is_matrix_;  // of each parameter: updated by Muon
  std::map<std::pair<std::size_t, std::size_t>, Orthogonaliser> orthogonalisers_;  // by shape
  Tensor scratch_;                                                                 // on a device
};

}  // namespace horo::ops
