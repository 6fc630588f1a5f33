#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/nn/loss.h"

namespace horo::ops {

/// One pass of a stage in a pipeline.
struct PipelinePass {
  /// The direction of a pass.
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;   ///< the direction
  std::size_t micro_batch = 0;  ///< from 0
  /// Whether all members are equal.
  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};

/// Returns the passes of stage `stage` of `stages` for one step, in the order 1F1B: first forward
/// passes until the last stage has work, then forward and backward in turns, then the remaining
/// backward passes. A stage has at most `stages - stage` micro-batches between their forward and
/// their backward pass. With m micro-batches, each stage is idle for (stages - 1) / (m + stages -
/// 1) of the time, as with GPipe, but GPipe keeps all m micro-batches. Pure. Source: Narayanan et
/// al., "PipeDream" (2019); Huang et al., "GPipe" (2019).
std::vector<PipelinePass> one_forward_one_backward(std::size_t stage, std::size_t stages,
                                                   std::size_t micro_batches);

/// The options of PipelineStage.
struct PipelineStageOptions {
  std::size_t stage = 0;   ///< of this rank, from 0
  std::size_t stages = 1;  ///< of the pipeline
  /// The ranks of `context` that have the stages before and after this one. Not used by the first
  /// and the last stage.
  int previous = -1;
  int next = -1;                  ///< see `previous`
  std::size_t micro_batches = 1;  ///< of a step
  /// The input of one micro-batch, with its batch dimension. Not used by the first stage.
  Shape input_shape{0};
  std::string name = "pipeline";  ///< of the messages
};

/// Runs a stage of a model, in host memory, on micro-batches. Activations go to the next stage, and
/// their gradients come back, by Context::send_async() and recv(). A stage stores only the inputs
/// of micro-batches and computes the forward pass again before the backward pass, except the last
/// stage. Used from one thread.
class PipelineStage {
 public:
  /// Borrows `context` and `layer`. Throws InvalidArgument for options out of range, for a layer
  /// with buffers (running statistics), which the repeated forward pass would update twice, and for
  /// a layer on a device.
  PipelineStage(Context& context, Layer& layer, const PipelineStageOptions& options);

  /// The tensors of a micro-batch: its input on the first stage, its target on the last.
  using MakeTensor = std::function<Tensor(std::size_t micro_batch)>;
  /// Runs all micro-batches of a step forward and backward. Afterwards, the gradients of the
  /// parameters are the sums over the micro-batches. `samples` is as in Loss::backward(): with the
  /// samples of all micro-batches, the gradients are those of the mean. `pass` must be a training
  /// pass without samples. Returns the sum of the losses on the last stage, and 0 on others.
  /// Blocks; the ranks of all stages must call it. Throws as send() and recv() do.
  double run(const MakeTensor& input, const MakeTensor& target, const Loss& loss, double samples,
             const Pass& pass);

 private:
  bool is_first() const { return options_.stage == 0; }
  bool is_last() const { return options_.stage + 1 == options_.stages; }
  void send(Tensor tensor, const char* what, int to);
  Tensor receive(const Shape& shape, const char* what, int from);
  void add_gradients();

  Context& context_;
  Layer& layer_;
  const PipelineStageOptions options_;
  const std::vector<PipelinePass> passes_;
  std::vector<Handle> sends_;
  std::vector<std::vector<float>> sums_;  // of the gradients, one for each parameter
};

}  // namespace horo::ops
