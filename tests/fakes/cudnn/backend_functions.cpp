// The functions of cuDNN's graph API.
#include <cudnn.h>

#include <algorithm>

#include "tests/fakes/cuda/library_call.h"
#include "tests/fakes/cudnn/backend_descriptor.h"

namespace horo::fakes::dnn {
namespace {

std::shared_ptr<BackendDescriptor> checked(const char* call, cudnnBackendDescriptor_t descriptor) {
  return backend_descriptors().get(call, static_cast<BackendDescriptor*>(descriptor));
}

/// A finalized descriptor of this type.
std::shared_ptr<BackendDescriptor> finalized(const char* call, cudnnBackendDescriptor_t handle,
                                             cudnnBackendDescriptorType_t type) {
  auto descriptor = checked(call, handle);
  descriptor->require(call, descriptor->type() == type, "the descriptor has another type");
  descriptor->require_finalized(call);
  return descriptor;
}

void* pointer_of(const LibraryCall& call, const BackendDescriptor& pack, std::int64_t id) {
  const auto ids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto found = std::ranges::find(ids, id);
  call.require(found != ids.end(), "the pack lacks the identifier of a tensor");
  return pack.values<void*>(
      CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[static_cast<std::size_t>(found - ids.begin())];
}

/// Adds the operands of a run.
ConvolutionOperands operands_of(LibraryCall& call, const Engine& engine,
                                const BackendDescriptor& pack) {
  constexpr std::size_t kImages = 0, kFilter = 1, kOutput = 2;
  const Convolution& c = engine.convolution;
  const auto read = [&](std::size_t which, const Tensor& tensor) {
    const void* const data = pointer_of(call, pack, engine.ids[which]);
    call.read("a tensor", data, tensor.bytes(), engine.alignments[which]);
    return data;
  };
  const auto write = [&](std::size_t which, const Tensor& tensor) {
    void* const data = pointer_of(call, pack, engine.ids[which]);
    call.write("the result", data, tensor.bytes(), engine.alignments[which]);
    return data;
  };
  if (c.direction == Direction::kForward)
    return {read(kImages, c.images), read(kFilter, c.filter), write(kOutput, c.output)};
  if (c.direction == Direction::kBackwardData)
    return {read(kFilter, c.filter), read(kOutput, c.output), write(kImages, c.images)};
  return {read(kImages, c.images), read(kOutput, c.output), write(kFilter, c.filter)};
}

}  // namespace
}  // namespace horo::fakes::dnn

using namespace horo::fakes;       // NOLINT
using namespace horo::fakes::dnn;  // NOLINT

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  const char* const call = "cudnnBackendCreateDescriptor";
  enter(call);
  auto created = std::make_shared<BackendDescriptor>(type);
  created->require(call, !attributes_of(type).empty(), "the fake does not know the type");
  *descriptor = backend_descriptors().add(std::move(created));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  enter("cudnnBackendDestroyDescriptor");
  backend_descriptors().remove("cudnnBackendDestroyDescriptor",
                               static_cast<BackendDescriptor*>(descriptor));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  const char* const call = "cudnnBackendSetAttribute";
  enter(call);
  dnn::checked(call, descriptor)->set(call, name, type, count, values);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t* count, void* values) {
  const char* const call = "cudnnBackendGetAttribute";
  enter(call);
  *count = dnn::checked(call, descriptor)->copy(call, name, type, room, values);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  enter("cudnnBackendFinalize");
  return dnn::checked("cudnnBackendFinalize", descriptor)->finalize("cudnnBackendFinalize");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  const char* const name = "cudnnBackendExecute";
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const auto plan = finalized(name, plan_handle, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const auto pack = finalized(name, pack_handle, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const Engine& engine = plan->engine();
  const ConvolutionOperands operands = operands_of(call, engine, *pack);
  const auto needed = static_cast<std::size_t>(engine.workspace_bytes);
  call.use_workspace(pack->values<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0], needed, needed, 16);
  call.submit([convolution = engine.convolution, operands, precision = engine.precision,
               alpha = engine.alpha,
               beta = engine.beta] { compute(convolution, operands, precision, alpha, beta); });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
