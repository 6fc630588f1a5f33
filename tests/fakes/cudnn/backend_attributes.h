#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::fakes::dnn {

/// An attribute that descriptors of one type have.
struct BackendAttribute {
  enum class Use { kRequired, kOptional, kResult };  ///< a result cannot be set

  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t least, most;  // how many values
  Use use = Use::kRequired;
};

/// The attributes of a type that the fake knows; empty for a type that it does not know.
std::span<const BackendAttribute> attributes_of(cudnnBackendDescriptorType_t type);

/// The size of a value in bytes; 0 for a type that the fake does not know.
std::size_t size_of(cudnnBackendAttributeType_t type);

/// The attributes of the operation for a convolution in one direction.
struct OperationAttributes {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, images, filter, output;
};
std::span<const OperationAttributes> operations();

}  // namespace horo::fakes::dnn
