#pragma once

#include <mpi.h>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::bench {

/// MPI has no 16-bit floats: they travel as 16-bit integers.
MPI_Datatype mpi_type_of(DataType type);

/// MPI's operation that matches one of horo's; an average is its sum. For 16-bit floats it is one
/// of this program, which computes in float32 and rounds, element by element. Owns what it made;
/// gone before MPI is finalised.
class MpiOperation {
 public:
  MpiOperation(DataType type, ReduceOp op);
  ~MpiOperation();
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
  bool is_own_ = false;
};

}  // namespace horo::bench
