#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "ops/backend/cuda/cudnn_backend.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/shapes.h"

// Convolutions through the graph API of cuDNN, which has engines that the older functions
// (convolution.h) lack.

namespace horo::ops::cuda {

enum class ConvolutionDirection { kForward, kBackwardData, kBackwardWeights };

/// What decides the engine of a convolution, apart from the GPU and the workspace.
struct ConvolutionGraphOptions {
  ConvolutionShape shape;  ///< has_bias is ignored: the graph has no bias
  ImageFormat format;
  ConvolutionDirection direction = ConvolutionDirection::kForward;
  bool allow_tf32 = false;  ///< see MatmulOptions
  /// See MatmulOptions.
  std::int32_t multiprocessors = 0;
};

/// The operation as cuDNN's graph API describes it. Needs no GPU. Throws InvalidArgument for other
/// types, and DeviceError if cuDNN rejects the shape.
class ConvolutionGraph {
 public:
  /// The identifiers of the tensors in a call.
  static constexpr std::int64_t kImages = 1, kFilter = 2, kOutput = 3;

  explicit ConvolutionGraph(const ConvolutionGraphOptions& options);

  const BackendDescriptor& images() const { return images_; }
  const BackendDescriptor& filter() const { return filter_; }
  const BackendDescriptor& output() const { return output_; }
  const BackendDescriptor& convolution() const { return convolution_; }
  const BackendDescriptor& operation() const { return operation_; }

 private:
  BackendDescriptor images_, filter_, output_, convolution_, operation_;
};

/// Whether an engine with these notes of cuDNN may be used: it gives the same bits in every run and
/// adds in float32. If `is_exact`, it also uses all bits of its factors.
bool is_acceptable(std::span<const cudnnBackendNumericalNote_t> notes, bool is_exact);

/// An engine of cuDNN for one convolution on one GPU.
class ConvolutionPlan {
 public:
  /// The best engine of cuDNN's heuristic (mode A) that is_acceptable() and needs at most
  /// `workspace_bytes`. Null if there is none. The same on all GPUs of one model.
  static std::optional<ConvolutionPlan> best(const CudnnWork& work,
                                             const ConvolutionGraphOptions& options);

  /// Submits the convolution. `images` and `output` are the input and the output of the forward
  /// pass, or their gradients; one of the three is written.
  void run(const CudnnWork& work, const void* images, const void* filter, const void* output) const;
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  ConvolutionPlan(BackendDescriptor engine, BackendDescriptor plan, std::size_t workspace_bytes)
      : engine_(std::move(engine)), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  BackendDescriptor engine_, plan_;
  std::size_t workspace_bytes_;
};

/// The plans of a handle. Layers of the same shape share one. Used from one thread at a time.
class ConvolutionPlans {
 public:
  /// Null if the graph API has no plan for the convolution; the first such call for a shape logs
  /// why. Every call for a shape must have the same size of workspace.
  const ConvolutionPlan* find(const CudnnWork& work, const ConvolutionGraphOptions& options);

  /// Equal for convolutions that share a plan.
  using Key = std::array<std::size_t, 13>;
  static Key key_of(const ConvolutionGraphOptions& options);

 private:
  std::map<Key, std::optional<ConvolutionPlan>> plans_;
};

}  // namespace horo::ops::cuda
