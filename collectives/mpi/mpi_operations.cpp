#include "collectives/mpi/mpi_operations.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/reduce/kernels.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// MPI's signature of an operation: in_out[i] = in[i] Op in_out[i].
template <DataType Type, ReduceOp Op>
void combine(void* in, void* in_out, int* count, MPI_Datatype*) {
  const std::byte* sources[] = {static_cast<std::byte*>(in), static_cast<std::byte*>(in_out)};
  reduce(Type, Op, sources, static_cast<std::size_t>(*count), 1, static_cast<std::byte*>(in_out),
         Stores::kPlain);
}

template <DataType Type, ReduceOp Op>
MPI_Op make_operation() {
  MPI_Op operation = MPI_OP_NULL;
  HORO_MPI(MPI_Op_create(combine<Type, Op>, 1, &operation));
  return operation;
}

template <DataType Type>
void make_operations(MPI_Op (&owned)[kDataTypeCount][kElementwiseOpCount]) {
  auto& operations = owned[static_cast<int>(Type)];
  operations[static_cast<int>(ReduceOp::kAverage)] = make_operation<Type, ReduceOp::kSum>();
  operations[static_cast<int>(ReduceOp::kSum)] = make_operation<Type, ReduceOp::kSum>();
  operations[static_cast<int>(ReduceOp::kMin)] = make_operation<Type, ReduceOp::kMin>();
  operations[static_cast<int>(ReduceOp::kMax)] = make_operation<Type, ReduceOp::kMax>();
  operations[static_cast<int>(ReduceOp::kProduct)] = make_operation<Type, ReduceOp::kProduct>();
}

}  // namespace

MpiOperations::MpiOperations() {
  HORO_MPI(MPI_Type_contiguous(2, MPI_BYTE, &half_));
  HORO_MPI(MPI_Type_commit(&half_));
  for (auto& operations : owned_)
    std::fill(std::begin(operations), std::end(operations), MPI_OP_NULL);
  make_operations<DataType::kFloat16>(owned_);
  make_operations<DataType::kBFloat16>(owned_);
  make_operations<DataType::kInt8>(owned_);
  make_operations<DataType::kUInt8>(owned_);
  make_operations<DataType::kInt16>(owned_);
  make_operations<DataType::kUInt16>(owned_);
  make_operations<DataType::kBool>(owned_);
}

MpiOperations::~MpiOperations() {
  if (!mpi_is_running()) return;
  MPI_Type_free(&half_);
  for (auto& operations : owned_)
    for (MPI_Op& operation : operations)
      if (operation != MPI_OP_NULL) MPI_Op_free(&operation);
}

MPI_Datatype MpiOperations::type_of(DataType type) const {
  switch (type) {
    case DataType::kFloat32:
      return MPI_FLOAT;
    case DataType::kFloat64:
      return MPI_DOUBLE;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return half_;
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
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op MpiOperations::operation_of(DataType type, ReduceOp op) const {
  HORO_CHECK(is_elementwise(op), "MPI has no operation for Adasum");
  const MPI_Op owned = owned_[static_cast<int>(type)][static_cast<int>(op)];
  if (owned != MPI_OP_NULL) return owned;
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProduct:
      return MPI_PROD;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      break;
  }
  return MPI_SUM;
}

}  // namespace horo::collectives
