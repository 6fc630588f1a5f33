#include "ops/backend/cuda/convolution_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "ops/backend/cuda/cudnn_descriptors.h"

namespace horo::ops::cuda {
namespace {

using Direction = ConvolutionDirection;

constexpr std::int64_t kAlignment = 16;
/// The number of engines that the heuristic is asked for, best first.
constexpr std::size_t kMostEngines = 16;
constexpr std::size_t kMostNotes = 32;

// Deprecated in cuDNN 9.19; earlier versions require it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

/// The attributes of the three operations.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, images, filter, output;
};

const OperationNames& names_of(Direction direction) {
  static constexpr OperationNames kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  static constexpr OperationNames kBackwardData{
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  static constexpr OperationNames kBackwardWeights{
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  if (direction == Direction::kForward) return kForward;
  return direction == Direction::kBackwardData ? kBackwardData : kBackwardWeights;
}

using Extents = std::array<std::int64_t, 4>;

/// Of [batch, channels, height, width]; filters are batches of out_channels images.
Extents dimensions_of(const ImageBatch& images) {
  return {static_cast<std::int64_t>(images.batch), static_cast<std::int64_t>(images.channels),
          static_cast<std::int64_t>(images.height), static_cast<std::int64_t>(images.width)};
}

Extents strides_of(const ImageBatch& images, ImageLayout layout) {
  const auto [batch, channels, height, width] = dimensions_of(images);
  if (layout == ImageLayout::kChannelsFirst)
    return {channels * height * width, height * width, width, 1};
  return {channels * height * width, 1, width * channels, channels};
}

BackendDescriptor make_tensor(std::int64_t id, const ImageBatch& images,
                              const ImageFormat& format) {
  BackendDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(format.type));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  const Extents dimensions = dimensions_of(images), strides = strides_of(images, format.layout);
  tensor.set_all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, dimensions);
  tensor.set_all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.finalize();
  return tensor;
}

BackendDescriptor make_convolution(const Window& window) {
  using Pair = std::array<std::int64_t, 2>;
  const auto both = [](std::size_t value) {
    return Pair{static_cast<std::int64_t>(value), static_cast<std::int64_t>(value)};
  };
  const Pair padding = both(window.padding), stride = both(window.stride), dilation = both(1);
  BackendDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  convolution.set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  convolution.set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
  convolution.set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  convolution.finalize();
  return convolution;
}

ImageBatch filter_images(const ConvolutionShape& shape) {
  return {shape.out_channels, shape.input.channels, shape.window.size, shape.window.size};
}

/// The configurations of engines for `graph`, best first.
std::vector<BackendDescriptor> ranked_engines(const BackendDescriptor& graph,
                                              std::int32_t multiprocessors) {
  BackendDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (multiprocessors > 0) heuristic.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, multiprocessors);
  if (!heuristic.try_finalize()) return {};
  return heuristic.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                               kMostEngines);
}

bool is_acceptable_engine(const BackendDescriptor& configuration, bool is_exact) {
  const auto engines =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  const auto notes = engines.at(0).values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMostNotes);
  return is_acceptable(notes, is_exact);
}

}  // namespace

ConvolutionGraph::ConvolutionGraph(const ConvolutionGraphOptions& options)
    : images_(make_tensor(kImages, options.shape.input, options.format)),
      filter_(make_tensor(kFilter, filter_images(options.shape), options.format)),
      output_(make_tensor(kOutput, options.shape.output(), options.format)),
      convolution_(make_convolution(options.shape.window)),
      operation_(names_of(options.direction).type) {
  const OperationNames& names = names_of(options.direction);
  operation_.set(names.alpha, 1.0f);
  operation_.set(names.beta, 0.0f);
  operation_.set(names.convolution, convolution_);
  operation_.set(names.images, images_);
  operation_.set(names.filter, filter_);
  operation_.set(names.output, output_);
  operation_.finalize();
}

bool is_acceptable(std::span<const cudnnBackendNumericalNote_t> notes, bool is_exact) {
  return std::ranges::none_of(notes, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (is_exact && (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                         note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  });
}

// The descriptors of the graph are needed only until the plan is finalized.
std::optional<ConvolutionPlan> ConvolutionPlan::best(const CudnnWork& work,
                                                     const ConvolutionGraphOptions& options) {
  const cudnnHandle_t handle = work.handle();
  const ConvolutionGraph description(options);
  BackendDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, description.operation());
  if (!graph.try_finalize()) return std::nullopt;
  const bool is_exact = options.format.type == DataType::kFloat32 && !options.allow_tf32;
  for (BackendDescriptor& engine : ranked_engines(graph, options.multiprocessors)) {
    if (!is_acceptable_engine(engine, is_exact)) continue;
    BackendDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(kPlanHandle, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    if (!plan.try_finalize()) continue;
    const auto bytes = static_cast<std::size_t>(
        plan.values<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1).at(0));
    if (bytes <= work.workspace.size())
      return ConvolutionPlan(std::move(engine), std::move(plan), bytes);
  }
  return std::nullopt;
}

void ConvolutionPlan::run(const CudnnWork& work, const void* images, const void* filter,
                          const void* output) const {
  const std::array<const void*, 3> pointers{images, filter, output};
  constexpr std::array<std::int64_t, 3> kIds{ConvolutionGraph::kImages, ConvolutionGraph::kFilter,
                                             ConvolutionGraph::kOutput};
  BackendDescriptor call(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  call.set_all<const void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  call.set_all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kIds);
  call.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(work.workspace.data()));
  call.finalize();
  HORO_CUDNN(backend_execute, work.handle(), plan_.get(), call.get());
}

ConvolutionPlans::Key ConvolutionPlans::key_of(const ConvolutionGraphOptions& options) {
  const auto& [input, out_channels, window, has_bias] = options.shape;
  return {input.batch,
          input.channels,
          input.height,
          input.width,
          out_channels,
          window.size,
          window.stride,
          window.padding,
          static_cast<std::size_t>(options.format.type),
          static_cast<std::size_t>(options.format.layout),
          static_cast<std::size_t>(options.direction),
          std::size_t{options.allow_tf32},
          static_cast<std::size_t>(options.multiprocessors)};
}

// A failure here is that of a search, which has submitted no work; the older functions then report
// what is wrong with the device, if anything is.
const ConvolutionPlan* ConvolutionPlans::find(const CudnnWork& work,
                                              const ConvolutionGraphOptions& options) {
  const auto [place, is_new] = plans_.try_emplace(key_of(options));
  auto& plan = place->second;
  if (!is_new) return plan ? &*plan : nullptr;
  std::string reason = "it has no engine that gives the same bits in every run and fits";
  try {
    plan = ConvolutionPlan::best(work, options);
  } catch (const DeviceError& error) {
    reason = error.what();
  }
  if (plan) return &*plan;
  const ImageBatch& input = options.shape.input;
  log_info(
      "convolution [{}, {}, {}, {}] to {} channels: the older functions of cuDNN compute it "
      "instead of its graph API: {}",
      input.batch, input.channels, input.height, input.width, options.shape.out_channels, reason);
  return nullptr;
}

}  // namespace horo::ops::cuda
