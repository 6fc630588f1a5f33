#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "horo/base/reduce_op.h"

namespace horo {

/// The options of Context::allreduce(). All options of operations use the same names:
///
/// `name`: ranks match an operation by its name. If empty, a group has the name of its first
/// tensor. Any other operation has the name "<operation>.<k>", where k counts, from 0, the nameless
/// operations of that kind that this rank has submitted in the Context. All ranks must then submit
/// these operations in the same order. A name may be used again after its operation has completed.
///
/// `prescale`, `postscale`: finite factors, equal on all ranks. The result is postscale *
/// op(prescale * x). Each product is rounded once to the element type. float64 is multiplied in
/// float64. Other floating point types are multiplied in float32, to which the factor is rounded
/// first. For integers and bool, both factors must be 1.
///
/// `stream`: for tensors in device memory, the stream whose work computes the inputs, a
/// cudaStream_t. With the host stand-in for a GPU, it is device::Stream::native(). The operation
/// starts after the work that is enqueued on this stream at submission. Null stands for the default
/// stream of the GPU. The stand-in has no default stream, so null throws InvalidArgument there. For
/// tensors in host memory, `stream` must be null.
struct AllreduceOptions {
  std::string name;                  ///< the name by which the ranks match the operation
  ReduceOp op = ReduceOp::kAverage;  ///< how the values of the ranks are combined
  double prescale = 1.0;             ///< multiplies the values of this rank before the reduction
  double postscale = 1.0;            ///< multiplies the result
  void* stream = nullptr;            ///< computes the inputs, if they are in device memory
};
/// The options of Context::broadcast(); `name` and `stream` are as in AllreduceOptions.
struct BroadcastOptions {
  std::string name;        ///< the name by which the ranks match the operation
  int root = 0;            ///< the rank that sends its values to all ranks
  void* stream = nullptr;  ///< computes the values, if they are in device memory
};
/// The options of Context::allgather(); `name` and `stream` are as in AllreduceOptions.
struct AllgatherOptions {
  std::string name;        ///< the name by which the ranks match the operation
  void* stream = nullptr;  ///< computes the input, if it is in device memory
};
/// The options of Context::reduce_scatter(), as in AllreduceOptions. The factors must be 1 for
/// tensors in device memory.
struct ReduceScatterOptions {
  std::string name;                  ///< the name by which the ranks match the operation
  ReduceOp op = ReduceOp::kAverage;  ///< any but kAdasum
  double prescale = 1.0;             ///< if not 1, the operation copies the input
  double postscale = 1.0;            ///< multiplies the result
  void* stream = nullptr;            ///< computes the input, if it is in device memory
};
/// The options of Context::alltoall(); `name` and `stream` are as in AllreduceOptions.
struct AlltoallOptions {
  std::string name;  ///< the name by which the ranks match the operation
  /// The number of rows (first dimension) of the input to send to each rank, by rank. The sum must
  /// be the number of rows of the input. If empty, each rank gets `rows / size` rows, and each of
  /// the first `rows % size` ranks gets one more.
  std::vector<std::size_t> splits;
  void* stream = nullptr;  ///< computes the input, if it is in device memory
};
/// The options of Context::barrier().
struct BarrierOptions {
  std::string name;  ///< the name by which the ranks match the barrier, as in AllreduceOptions
};
/// Options of Context::send(). Messages without a name have the name "message".
struct SendOptions {
  std::string name;        ///< the name by which the two ranks match their messages
  int to = -1;             ///< the rank that receives; required
  void* stream = nullptr;  ///< computes the values, if they are in device memory
};
/// Options of Context::recv(). Messages without a name have the name "message".
struct ReceiveOptions {
  std::string name;        ///< the name by which the two ranks match their messages
  int from = -1;           ///< the rank that sends; required
  void* stream = nullptr;  ///< may use the memory before, if it is device memory
};
/// The options of Context::check_equal().
struct CheckEqualOptions {
  /// The name of the check, which errors show. May be empty. Each name has its own count of calls;
  /// see `every`.
  std::string name;
  /// Compare the tensors in the first call and then in every `every`-th call; in other calls, check
  /// only the arguments. Must be at least 1 and equal on all ranks.
  std::uint64_t every = 1;
  void* stream = nullptr;  ///< computes the tensors, if they are in device memory
};

}  // namespace horo
