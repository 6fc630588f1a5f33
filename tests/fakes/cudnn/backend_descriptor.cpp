#include "tests/fakes/cudnn/backend_descriptor.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "tests/fakes/cuda/violation.h"

namespace horo::fakes::dnn {
namespace {

using Use = BackendAttribute::Use;

Direction direction_of(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return Direction::kForward;
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
             ? Direction::kBackwardData
             : Direction::kBackwardFilter;
}

Tensor tensor_of(const BackendDescriptor& descriptor) {
  Tensor tensor;
  tensor.type = descriptor.values<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)[0];
  std::ranges::copy(descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                    tensor.extents.begin());
  std::ranges::copy(descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
                    tensor.strides.begin());
  return tensor;
}

Window window_of(const BackendDescriptor& convolution, const Tensor& filter) {
  const auto pair = [&](cudnnBackendAttributeName_t name) {
    const auto values = convolution.values<std::int64_t>(name);
    return Window::Pair{values[0], values[1]};
  };
  return {{filter.extents[2], filter.extents[3]},
          pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
          pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          pair(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
}

int multiprocessors() {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  return count;
}

}  // namespace

Handles<BackendDescriptor>& backend_descriptors() {
  static auto* handles = new Handles<BackendDescriptor>("backend descriptor");
  return *handles;
}

std::vector<Engine> engines_for(const Engine& operation) {
  const Convolution& convolution = operation.convolution;
  if (convolution.images.extents[1] % 2 != 0) return {};
  const bool is_wide = convolution.images.type == CUDNN_DATA_FLOAT;
  const auto bytes = static_cast<std::int64_t>((convolution.output.bytes() + 255) / 256 * 256);
  std::vector<Engine> engines(5, operation);
  for (Engine& engine : std::span(engines).first(4)) {
    engine.notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    if (is_wide) engine.notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    engine.precision.has_tf32 = is_wide;
  }
  engines[0].notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  engines[0].precision.is_deterministic = false;
  engines[1].has_plan = false;
  engines[2].workspace_bytes = std::int64_t{1} << 40;
  engines[3].workspace_bytes = bytes;
  engines[4].workspace_bytes = 256;
  return engines;
}

void BackendDescriptor::require(const char* call, bool holds, const std::string& rule) const {
  if (!holds)
    violation(call, fmt::format("a descriptor of type {}", static_cast<int>(type_)), rule);
}

void BackendDescriptor::require_finalized(const char* call) const {
  require(call, is_finalized_, "the descriptor is not finalized");
}

const BackendAttribute& BackendDescriptor::known(const char* call,
                                                 cudnnBackendAttributeName_t attribute,
                                                 cudnnBackendAttributeType_t type) const {
  const auto all = attributes_of(type_);
  const auto found = std::ranges::find(all, attribute, &BackendAttribute::name);
  const std::string name = fmt::format("attribute {}", static_cast<int>(attribute));
  require(call, found != all.end(), name + " is not known to the fake");
  require(call, found->type == type, name + " has another type");
  return *found;
}

void BackendDescriptor::set(const char* call, cudnnBackendAttributeName_t attribute,
                            cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* values) {
  require(call, !is_finalized_, "the descriptor is finalized");
  const BackendAttribute& known = this->known(call, attribute, type);
  require(call, known.use != Use::kResult, "the attribute is a result");
  require(call, count >= known.least && count <= known.most && values != nullptr,
          fmt::format("{} values are given, and the attribute has {}", count, known.most));
  Value& value = values_[attribute];
  const auto* const bytes = static_cast<const std::byte*>(values);
  value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  value.children.clear();
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  for (const auto handle : this->values<cudnnBackendDescriptor_t>(attribute)) {
    value.children.push_back(
        backend_descriptors().get(call, static_cast<BackendDescriptor*>(handle)));
    value.children.back()->require_finalized(call);
  }
}

std::int64_t BackendDescriptor::copy(const char* call, cudnnBackendAttributeName_t attribute,
                                     cudnnBackendAttributeType_t type, std::int64_t room,
                                     void* values) const {
  require_finalized(call);
  (void)known(call, attribute, type);
  if (attribute == CUDNN_ATTR_ENGINEHEUR_RESULTS)
    return fill(call, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, room, values);
  if (attribute == CUDNN_ATTR_ENGINECFG_ENGINE)
    return fill(call, CUDNN_BACKEND_ENGINE_DESCRIPTOR, room, values);
  const auto give = [&](const auto& all) {
    const auto count = static_cast<std::int64_t>(all.size());
    std::memcpy(values, all.data(),
                static_cast<std::size_t>(std::min(room, count)) * sizeof(all[0]));
    return count;
  };
  if (attribute == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) return give(engine().notes);
  if (attribute == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    return give(std::array{engine().workspace_bytes});
  require(call, has(attribute), "the attribute was not set");
  const std::span bytes(values_.at(attribute).bytes);
  const auto count = static_cast<std::int64_t>(bytes.size() / size_of(type));
  std::memcpy(values, bytes.data(),
              static_cast<std::size_t>(std::min(room, count)) * size_of(type));
  return count;
}

// The caller has created the descriptors that receive the results.
std::int64_t BackendDescriptor::fill(const char* call, cudnnBackendDescriptorType_t type,
                                     std::int64_t room, void* handles) const {
  auto* const list = static_cast<cudnnBackendDescriptor_t*>(handles);
  const std::size_t count = std::min(static_cast<std::size_t>(room), engines_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = backend_descriptors().get(call, static_cast<BackendDescriptor*>(list[i]));
    own->require(call, own->type_ == type, "the descriptor for a result has another type");
    own->engines_ = {engines_[i]};
    own->is_finalized_ = true;
  }
  return static_cast<std::int64_t>(engines_.size());
}

std::shared_ptr<BackendDescriptor> BackendDescriptor::child(
    const char* call, cudnnBackendAttributeName_t attribute,
    cudnnBackendDescriptorType_t type) const {
  const auto child = values_.at(attribute).children.at(0);
  require(call, child->type_ == type,
          fmt::format("attribute {} is a descriptor of another type", static_cast<int>(attribute)));
  (void)backend_descriptors().get(call, child.get());  // it must still exist
  return child;
}

cudnnStatus_t BackendDescriptor::finalize(const char* call) {
  require(call, !is_finalized_, "the descriptor is finalized");
  for (const BackendAttribute& attribute : attributes_of(type_))
    require(call, attribute.use != Use::kRequired || has(attribute.name),
            fmt::format("attribute {} is missing", static_cast<int>(attribute.name)));
  const cudnnStatus_t status = derive(call);
  is_finalized_ = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t BackendDescriptor::derive(const char* call) {
  switch (type_) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      require_tensor(call);
      break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      require_convolution(call);
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      require_handle(call, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
      const auto& operation = values_.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).children.at(0);
      const auto is_operation = std::ranges::find(operations(), operation->type_,
                                                  &OperationAttributes::type) != operations().end();
      require(call, is_operation, "the descriptor in the graph is not an operation");
      engines_ = operation->engines_;
      break;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      if (has(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET)) {
        const auto target = values<std::int32_t>(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET)[0];
        require(call, target > 0 && target <= multiprocessors(),
                "SM_COUNT_TARGET is not a number of multiprocessors of the GPU");
      }
      const auto graph = child(call, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                               CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
      engines_ = engines_for(graph->engine());
      return engines_.empty() ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      require_handle(call, attributes_of(type_)[0].name);
      engines_ =
          child(call, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
              ->engines_;
      return engine().has_plan ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: {
      const auto ids = values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
      require(call, std::set(ids.begin(), ids.end()).size() == ids.size(),
              "two identifiers are equal");
      break;
    }
    default:
      for (const OperationAttributes& names : operations())
        if (names.type == type_) describe_operation(call, names);
  }
  return CUDNN_STATUS_SUCCESS;
}

void BackendDescriptor::require_tensor(const char* call) const {
  const Tensor tensor = tensor_of(*this);
  require(call, tensor.is_known(), "the fake does not support the type");
  require(call,
          *std::ranges::min_element(tensor.extents) > 0 &&
              *std::ranges::min_element(tensor.strides) > 0,
          "an extent or a stride is not positive");
  const auto alignment = values<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0];
  require(call, alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(alignment)),
          "the alignment is not a power of two");
}

void BackendDescriptor::require_convolution(const char* call) const {
  require(call, values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)[0] == 2,
          "the fake supports two dimensions only");
  require(call,
          values<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE)[0] == CUDNN_DATA_FLOAT &&
              values<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE)[0] ==
                  CUDNN_CROSS_CORRELATION,
          "the fake supports cross-correlation with sums in float32 only");
  require(call,
          std::ranges::equal(values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                             values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)),
          "the fake supports equal padding on both sides only");
  for (const auto name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS})
    require(call, std::ranges::min(values<std::int64_t>(name)) > 0,
            "a stride or a dilation is not positive");
}

void BackendDescriptor::require_handle(const char* call,
                                       cudnnBackendAttributeName_t attribute) const {
  (void)contexts().get(call, values<cudnnHandle_t>(attribute)[0]);
}

void BackendDescriptor::describe_operation(const char* call, const OperationAttributes& names) {
  const auto tensor = [&](cudnnBackendAttributeName_t name) {
    return child(call, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  };
  const std::array tensors{tensor(names.images), tensor(names.filter), tensor(names.output)};
  const auto window = child(call, names.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Tensor filter = tensor_of(*tensors[1]);
  Engine engine{.convolution = {direction_of(type_), tensor_of(*tensors[0]), filter,
                                tensor_of(*tensors[2]), window_of(*window, filter)}};
  engine.convolution.check([&](const std::string& rule) { require(call, false, rule); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    engine.ids[i] = tensors[i]->values<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0];
    engine.alignments[i] = static_cast<std::size_t>(
        tensors[i]->values<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0]);
  }
  require(call, std::set(engine.ids.begin(), engine.ids.end()).size() == engine.ids.size(),
          "two tensors have the same identifier");
  engine.alpha = values<float>(names.alpha)[0];
  engine.beta = values<float>(names.beta)[0];
  engines_ = {engine};
}

}  // namespace horo::fakes::dnn
