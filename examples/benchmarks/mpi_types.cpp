#include "examples/benchmarks/mpi_types.h"

#include <algorithm>

namespace horo::bench {
namespace {

float sum(float a, float b) { return a + b; }
float product(float a, float b) { return a * b; }
float least(float a, float b) { return std::min(a, b); }
float greatest(float a, float b) { return std::max(a, b); }

template <typename Half, float (*Combine)(float, float)>
void combine_halves(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* from = static_cast<const Half*>(in);
  auto* to = static_cast<Half*>(inout);
  for (int i = 0; i < *count; ++i)
    to[i] = Half(Combine(static_cast<float>(from[i]), static_cast<float>(to[i])));
}

template <typename Half>
MPI_User_function* half_function(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return combine_halves<Half, least>;
    case ReduceOp::kMax:
      return combine_halves<Half, greatest>;
    case ReduceOp::kProduct:
      return combine_halves<Half, product>;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:  // not offered
      break;
  }
  return combine_halves<Half, sum>;
}

MPI_Op built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProduct:
      return MPI_PROD;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:  // not offered
      break;
  }
  return MPI_SUM;
}

}  // namespace

MPI_Datatype mpi_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return MPI_DOUBLE;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return MPI_UINT16_T;
    case DataType::kInt8:
      return MPI_INT8_T;
    case DataType::kUInt8:
    case DataType::kBool:
      return MPI_UINT8_T;
    case DataType::kInt16:
      return MPI_INT16_T;
    case DataType::kUInt16:
      return MPI_UINT16_T;
    case DataType::kInt32:
      return MPI_INT32_T;
    case DataType::kInt64:
      return MPI_INT64_T;
    case DataType::kFloat32:
      break;
  }
  return MPI_FLOAT;
}

MpiOperation::MpiOperation(DataType type, ReduceOp op) : op_(built_in(op)) {
  is_own_ = type == DataType::kFloat16 || type == DataType::kBFloat16;
  if (!is_own_) return;
  MPI_Op_create(
      type == DataType::kFloat16 ? half_function<Float16>(op) : half_function<BFloat16>(op), 1,
      &op_);
}

MpiOperation::~MpiOperation() {
  if (is_own_) MPI_Op_free(&op_);
}

}  // namespace horo::bench
