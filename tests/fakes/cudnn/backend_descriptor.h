#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/fakes/cuda/handles.h"
#include "tests/fakes/cudnn/backend_attributes.h"
#include "tests/fakes/cudnn/convolution.h"

namespace horo::fakes::dnn {

/// A convolution of the graph API, and an engine that computes it.
struct Engine {
  Convolution convolution;
  // Of the images, the filter and the output.
  std::array<std::int64_t, 3> ids{};
  std::array<std::size_t, 3> alignments{};  // in bytes
  float alpha = 1, beta = 0;
  // Of the engine.
  std::vector<cudnnBackendNumericalNote_t> notes{};
  Precision precision{};
  std::int64_t workspace_bytes = 0;
  bool has_plan = true;  // otherwise the plan of the engine is not supported
};

/// The engines for a convolution, best first. A caller must pass over some of them to get the same
/// bits in every run, to keep all bits of float32 factors, or to fit into its workspace. Empty if
/// the number of input channels is odd.
std::vector<Engine> engines_for(const Engine& operation);

/// A descriptor of the graph API: values of attributes, which finalize() freezes.
class BackendDescriptor {
 public:
  explicit BackendDescriptor(cudnnBackendDescriptorType_t type) : type_(type) {}

  cudnnBackendDescriptorType_t type() const { return type_; }
  /// It is a violation of `rule` unless `holds`.
  void require(const char* call, bool holds, const std::string& rule) const;
  void require_finalized(const char* call) const;

  /// It is a violation if the type has no such attribute, or one of another type or size.
  void set(const char* call, cudnnBackendAttributeName_t attribute,
           cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  /// Copies up to `room` values, and returns the number of all.
  std::int64_t copy(const char* call, cudnnBackendAttributeName_t attribute,
                    cudnnBackendAttributeType_t type, std::int64_t room, void* values) const;
  /// It is a violation if an attribute is missing or if the values do not fit together.
  cudnnStatus_t finalize(const char* call);

  /// The values of an attribute that is set.
  template <typename T>
  std::span<const T> values(cudnnBackendAttributeName_t attribute) const {
    const std::vector<std::byte>& bytes = values_.at(attribute).bytes;
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  bool has(cudnnBackendAttributeName_t attribute) const { return values_.contains(attribute); }
  /// Of a finalized plan.
  const Engine& engine() const { return engines_.at(0); }

 private:
  struct Value {
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<BackendDescriptor>> children;
  };
  const BackendAttribute& known(const char* call, cudnnBackendAttributeName_t attribute,
                                cudnnBackendAttributeType_t type) const;
  std::shared_ptr<BackendDescriptor> child(const char* call, cudnnBackendAttributeName_t attribute,
                                           cudnnBackendDescriptorType_t type) const;
  void require_tensor(const char* call) const;
  void require_convolution(const char* call) const;
  void require_handle(const char* call, cudnnBackendAttributeName_t attribute) const;
  void describe_operation(const char* call, const OperationAttributes& names);
  cudnnStatus_t derive(const char* call);
  std::int64_t fill(const char* call, cudnnBackendDescriptorType_t type, std::int64_t room,
                    void* handles) const;

  cudnnBackendDescriptorType_t type_;
  bool is_finalized_ = false;
  std::map<cudnnBackendAttributeName_t, Value> values_;
  // Of an operation, a graph, an engine, a configuration or a plan: one. Of a heuristic: its
  // results.
  std::vector<Engine> engines_;
};

/// The live descriptors.
Handles<BackendDescriptor>& backend_descriptors();

}  // namespace horo::fakes::dnn
