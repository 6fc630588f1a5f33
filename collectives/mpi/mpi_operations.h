#pragma once

#include <mpi.h>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// MPI's type and operation for horo's. MPI knows no 16-bit floats, and some libraries saturate
/// sums of 8-bit and 16-bit integers: for these types, and for bool, this owns operations that do
/// as horo's kernels do (16-bit floats add in float32 and round every partial result). kAverage
/// maps to the sum, and there is none for kAdasum. Freed by the destructor, unless MPI has been
/// finalised before.
class MpiOperations {
 public:
  MpiOperations();
  MpiOperations(const MpiOperations&) = delete;
  MpiOperations& operator=(const MpiOperations&) = delete;
  ~MpiOperations();

  MPI_Datatype type_of(DataType type) const;
  MPI_Op operation_of(DataType type, ReduceOp op) const;

 private:
  MPI_Datatype half_ = MPI_DATATYPE_NULL;
  MPI_Op owned_[kDataTypeCount][kElementwiseOpCount];  // MPI_OP_NULL: MPI's own serves
};

}  // namespace horo::collectives
