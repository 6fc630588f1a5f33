#pragma once

/// @file
/// The interface for programs in C++17. Every function calls the function of horo_c.h that has the
/// same purpose, so programs link libhoro_c only. Classes, functions and options have the names of
/// the C++20 interface (horo/horo.h). Its headers describe which calls are collective, how ranks
/// match operations by name, and which errors which rank gets. docs/guides/c_api.md lists what a
/// program changes when it moves to C++20.
///
/// Errors are exceptions. Objects are move-only and free what they own. The program must destroy
/// GradientSyncs, Arenas and TraceScopes before the Context from which they were made.

#if __cplusplus < 201703L
#error "horo/horo_cxx17.h needs C++17: compile with -std=c++17 or later, or use horo/horo_c.h"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/horo_c.h"

/// The interface for programs in C++17; see horo/horo_cxx17.h.
namespace horo::cxx17 {

// ---- Errors ----

/// The base of all exception classes of horo; see horo/base/error.h.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// An argument or a setting is invalid. Nothing was submitted. The context remains usable.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};
/// Ranks disagree. Thrown on every rank that takes part. The context remains usable.
class MismatchError : public Error {
 public:
  using Error::Error;
};
/// A rank was lost, a wait timed out, or the transport failed. Except for SharedMemoryError, the
/// job cannot continue.
class CommunicationError : public Error {
 public:
  using Error::Error;
};
/// A node has too little shared memory. Thrown on every rank. The context remains usable.
class SharedMemoryError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};
/// A device (GPU) call failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};
/// This rank, or a rank that the operation needs, has shut down.
class ShutdownError : public Error {
 public:
  using Error::Error;
};

namespace detail {

[[noreturn]] inline void throw_error(horo_status status, const char* text) {
  switch (status) {
    case HORO_INVALID_ARGUMENT:
      throw InvalidArgument(text);
    case HORO_MISMATCH:
      throw MismatchError(text);
    case HORO_COMMUNICATION_ERROR:
      throw CommunicationError(text);
    case HORO_SHARED_MEMORY_ERROR:
      throw SharedMemoryError(text);
    case HORO_DEVICE_ERROR:
      throw DeviceError(text);
    case HORO_SHUT_DOWN:
      throw ShutdownError(text);
    default:
      throw Error(text);
  }
}

inline void check(horo_status status) {
  if (status != HORO_OK) throw_error(status, horo_last_error());
}

/// Null for a name that was not given.
inline const char* name_or_null(const std::string& name) {
  return name.empty() ? nullptr : name.c_str();
}

/// Frees an object of horo_c.h with `destroy`.
template <typename Object, void (*destroy)(Object*)>
struct Destroy {
  void operator()(Object* object) const noexcept { destroy(object); }
};
template <typename Object, void (*destroy)(Object*)>
using Owner = std::unique_ptr<Object, Destroy<Object, destroy>>;

}  // namespace detail

// ---- Tensors ----

/// The type of the elements of a tensor; see horo/base/data_type.h.
enum class DataType : std::uint8_t {
  kFloat32 = HORO_FLOAT32,    ///< float
  kFloat64 = HORO_FLOAT64,    ///< double
  kFloat16 = HORO_FLOAT16,    ///< IEEE 754 binary16
  kBFloat16 = HORO_BFLOAT16,  ///< the upper half of a float
  kInt8 = HORO_INT8,          ///< std::int8_t
  kUInt8 = HORO_UINT8,        ///< std::uint8_t
  kInt16 = HORO_INT16,        ///< std::int16_t
  kUInt16 = HORO_UINT16,      ///< std::uint16_t
  kInt32 = HORO_INT32,        ///< std::int32_t
  kInt64 = HORO_INT64,        ///< std::int64_t
  kBool = HORO_BOOL,          ///< bool
};

/// The DataType of a C++ type. Programs may specialise it for their own 16-bit floating point
/// types.
template <typename T>
struct DataTypeOf;
/// @cond
template <>
struct DataTypeOf<float> : std::integral_constant<DataType, DataType::kFloat32> {};
template <>
struct DataTypeOf<double> : std::integral_constant<DataType, DataType::kFloat64> {};
template <>
struct DataTypeOf<std::int8_t> : std::integral_constant<DataType, DataType::kInt8> {};
template <>
struct DataTypeOf<std::uint8_t> : std::integral_constant<DataType, DataType::kUInt8> {};
template <>
struct DataTypeOf<std::int16_t> : std::integral_constant<DataType, DataType::kInt16> {};
template <>
struct DataTypeOf<std::uint16_t> : std::integral_constant<DataType, DataType::kUInt16> {};
template <>
struct DataTypeOf<std::int32_t> : std::integral_constant<DataType, DataType::kInt32> {};
template <>
struct DataTypeOf<std::int64_t> : std::integral_constant<DataType, DataType::kInt64> {};
template <>
struct DataTypeOf<bool> : std::integral_constant<DataType, DataType::kBool> {};
/// @endcond

/// The dimensions of a tensor, outermost first.
using Shape = std::vector<std::size_t>;
/// A GPU; see open_gpu().
using Device = horo_device;

/// A contiguous tensor that the caller owns and that horo only reads. The view does not keep the
/// memory alive.
class ConstTensorView {
 public:
  /// A tensor without elements.
  ConstTensorView() = default;
  /// A tensor of `shape` at `data`, in host memory.
  ConstTensorView(const void* data, DataType type, Shape shape)
      : ConstTensorView(data, type, std::move(shape), nullptr) {}
  /// The same, with the type of the pointer.
  template <typename T>
  ConstTensorView(const T* data, Shape shape)
      : ConstTensorView(data, DataTypeOf<T>::value, std::move(shape)) {}
  /// A tensor in the memory of a device, which must outlive the view.
  ConstTensorView(const void* data, DataType type, Shape shape, const Device& device)
      : ConstTensorView(data, type, std::move(shape), &device) {}
  /// The same, with the type of the pointer.
  template <typename T>
  ConstTensorView(const T* data, Shape shape, const Device& device)
      : ConstTensorView(data, DataTypeOf<T>::value, std::move(shape), device) {}
  /// A vector in a contiguous container, such as std::vector or std::array.
  template <typename Container,
            typename T = std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>,
            DataType type = DataTypeOf<std::remove_cv_t<T>>::value>
  ConstTensorView(Container& container)  // NOLINT: containers convert
      : ConstTensorView(std::data(container), type, Shape{std::size(container)}) {}

  const void* data() const { return data_; }        ///< the address of the first element
  DataType type() const { return type_; }           ///< the type of the elements
  const Shape& shape() const { return shape_; }     ///< the dimensions
  const Device* device() const { return device_; }  ///< null: host memory
  /// The number of elements.
  std::size_t count() const {
    return std::accumulate(shape_.begin(), shape_.end(), std::size_t{1}, std::multiplies<>());
  }

  /// The structure of horo_c.h. It points to this view and to `name`, which must outlive it.
  horo_tensor as_c(const std::string& name) const {
    return {detail::name_or_null(name),
            const_cast<void*>(data_),
            c_type(),
            count(),
            shape_.data(),
            shape_.size(),
            device_};
  }
  /// The element type in horo_c.h.
  horo_data_type c_type() const { return static_cast<horo_data_type>(type_); }
  /// Whether the tensor is a vector in host memory, which the blocking functions of horo_c.h take.
  bool is_host_vector() const { return device_ == nullptr && shape_.size() == 1; }

 private:
  ConstTensorView(const void* data, DataType type, Shape shape, const Device* device)
      : data_(data), type_(type), shape_(std::move(shape)), device_(device) {}

  const void* data_ = nullptr;
  DataType type_ = DataType::kFloat32;
  Shape shape_{0};
  const Device* device_ = nullptr;
};

/// A contiguous tensor that the caller owns and that horo writes. The view does not keep the memory
/// alive.
class TensorView : public ConstTensorView {
 public:
  /// A tensor without elements.
  TensorView() = default;
  /// A tensor of `shape` at `data`, in host memory.
  TensorView(void* data, DataType type, Shape shape)
      : ConstTensorView(data, type, std::move(shape)) {}
  /// The same, with the type of the pointer.
  template <typename T, typename = std::enable_if_t<!std::is_const_v<T>>>
  TensorView(T* data, Shape shape) : ConstTensorView(data, std::move(shape)) {}
  /// A tensor in the memory of a device, which must outlive the view.
  TensorView(void* data, DataType type, Shape shape, const Device& device)
      : ConstTensorView(data, type, std::move(shape), device) {}
  /// The same, with the type of the pointer.
  template <typename T, typename = std::enable_if_t<!std::is_const_v<T>>>
  TensorView(T* data, Shape shape, const Device& device)
      : ConstTensorView(data, std::move(shape), device) {}
  /// A vector in a contiguous container, such as std::vector or std::array.
  template <typename Container,
            typename T = std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>,
            DataType type = DataTypeOf<T>::value>
  TensorView(Container& container)  // NOLINT: containers convert
      : ConstTensorView(container) {}

  /// The address of the first element.
  void* data() const { return const_cast<void*>(ConstTensorView::data()); }
};

/// A tensor of a group, of a GradientSync or of check_equal().
struct NamedTensor {
  std::string name;   ///< not empty, and different for each tensor of a list
  TensorView tensor;  ///< its memory must stay in place as the operation requires
};

namespace detail {

/// The structures of horo_c.h for a list, which must outlive them.
inline std::vector<horo_tensor> as_c(const std::vector<NamedTensor>& tensors) {
  std::vector<horo_tensor> result;
  for (const NamedTensor& one : tensors) result.push_back(one.tensor.as_c(one.name));
  return result;
}

}  // namespace detail

// ---- Options of operations ----

/// How the values of the ranks are combined; see horo/base/reduce_op.h.
enum class ReduceOp : std::uint8_t {
  kAverage = HORO_AVERAGE,  ///< the sum, divided by the number of ranks
  kSum = HORO_SUM,          ///< the sum
  kMin = HORO_MIN,          ///< the smallest value
  kMax = HORO_MAX,          ///< the largest value
  kProduct = HORO_PRODUCT,  ///< the product
  kAdasum = HORO_ADASUM,    ///< Adasum
};

/// The options of Context::allreduce(). horo/base/operation_options.h describes the fields, which
/// have the same names and the same order there.
struct AllreduceOptions {
  std::string name{};                ///< the name by which the ranks match the operation
  ReduceOp op = ReduceOp::kAverage;  ///< how the values of the ranks are combined
  double prescale = 1.0;             ///< multiplies the values of this rank before the reduction
  double postscale = 1.0;            ///< multiplies the result
  void* stream = nullptr;            ///< computes the inputs, if they are in device memory
};
/// The options of Context::reduce_scatter().
using ReduceScatterOptions = AllreduceOptions;
/// The options of Context::broadcast().
struct BroadcastOptions {
  std::string name{};      ///< the name by which the ranks match the operation
  int root = 0;            ///< the rank that sends its values to all ranks
  void* stream = nullptr;  ///< computes the values, if they are in device memory
};
/// The options of Context::allgather().
struct AllgatherOptions {
  std::string name{};      ///< the name by which the ranks match the operation
  void* stream = nullptr;  ///< computes the input, if it is in device memory
};
/// The options of Context::alltoall().
struct AlltoallOptions {
  std::string name{};                 ///< the name by which the ranks match the operation
  std::vector<std::size_t> splits{};  ///< rows for each rank; empty: equal shares
  void* stream = nullptr;             ///< computes the input, if it is in device memory
};
/// The options of Context::barrier().
struct BarrierOptions {
  std::string name{};  ///< the name by which the ranks match the barrier
};
/// The options of Context::send().
struct SendOptions {
  std::string name{};  ///< the name by which the two ranks match their messages
  int to = -1;         ///< the rank that receives; required
};
/// The options of Context::recv().
struct ReceiveOptions {
  std::string name{};  ///< the name by which the two ranks match their messages
  int from = -1;       ///< the rank that sends; required
};
/// The options of Context::check_equal().
struct CheckEqualOptions {
  std::string name{};       ///< the name of the check, which errors show
  std::uint64_t every = 1;  ///< compare in every `every`-th call with this name
};

namespace detail {

inline horo_options as_c(const AllreduceOptions& options) {
  horo_options result = HORO_OPTIONS;
  result.name = name_or_null(options.name);
  result.op = static_cast<horo_reduce_op>(options.op);
  result.prescale = options.prescale;
  result.postscale = options.postscale;
  result.stream = options.stream;
  return result;
}
inline horo_options as_c(const BroadcastOptions& options) {
  horo_options result = HORO_OPTIONS;
  result.name = name_or_null(options.name);
  result.root = options.root;
  result.stream = options.stream;
  return result;
}
inline horo_options on_stream(void* stream) {
  horo_options result = HORO_OPTIONS;
  result.stream = stream;
  return result;
}
inline bool is_plain(const AllreduceOptions& options) {
  return options.prescale == 1 && options.postscale == 1 && options.stream == nullptr;
}

}  // namespace detail

// ---- Operations in flight ----

/// The future result of an asynchronous operation. A default-constructed handle is done, without an
/// error. The destructor does not wait: the operation continues, and the memory of its tensors must
/// stay valid. One thread at a time may use a handle.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  /// Owns `handle`.
  explicit Handle(horo_handle* handle) : handle_(handle) {}

  /// Whether the operation has completed, with or without an error. Does not block.
  bool is_done() const { return handle_ == nullptr || horo_is_done(handle_.get()) != 0; }
  /// Blocks until the operation has completed. Throws its error, if any. A second call has no
  /// effect.
  void wait() {
    if (handle_ != nullptr) detail::check(horo_wait(handle_.release()));
  }
  /// Tensors in device memory: later work of `stream` starts after the operation.
  void wait_on(void* stream) const { detail::check(horo_wait_on(handle_.get(), stream)); }
  /// Calls `callback` once after the operation has completed, with its error or with null, on a
  /// thread of horo or on this one. The callback must not block. Call then() before wait().
  void then(std::function<void(std::exception_ptr)> callback) const {
    auto owner = std::make_unique<std::function<void(std::exception_ptr)>>(std::move(callback));
    detail::check(horo_then(handle_.get(), &call, owner.get()));
    static_cast<void>(owner.release());  // call() frees it
  }

 protected:
  /// For horo_c.h; null after wait().
  horo_handle* get() const { return handle_.get(); }

 private:
  static void call(horo_status status, const char* text, void* user) {
    const std::unique_ptr<std::function<void(std::exception_ptr)>> callback(
        static_cast<std::function<void(std::exception_ptr)>*>(user));
    std::exception_ptr error;
    try {
      if (status != HORO_OK) detail::throw_error(status, text);
    } catch (const Error&) {
      error = std::current_exception();
    }
    (*callback)(error);
  }

  detail::Owner<horo_handle, &horo_handle_destroy> handle_;
};

/// The future result of an alltoall.
class [[nodiscard]] AlltoallHandle : public Handle {
 public:
  AlltoallHandle() = default;
  /// Owns `handle`, of an operation of `size` ranks.
  AlltoallHandle(horo_handle* handle, int size)
      : Handle(handle), size_(static_cast<std::size_t>(size)) {}

  /// The number of rows received from each rank, by rank. Blocks until they are known. Call it
  /// before wait(). Throws the error of the operation, if any.
  std::vector<std::size_t> received_splits() const {
    std::vector<std::size_t> splits(size_);
    detail::check(horo_received_splits(get(), splits.data(), size_));
    return splits;
  }

 private:
  std::size_t size_ = 0;
};

// ---- Jobs ----

/// Memory that all ranks of a node have mapped, in which gradients are reduced in place. Made by
/// Context::allocate(). All use of the memory must have ended when the Arena is destroyed.
class Arena {
 public:
  /// Owns `arena`.
  explicit Arena(horo_arena* arena) : arena_(arena) {}
  /// The memory of this rank: initially zero, aligned to 4 KiB.
  std::byte* data() const { return static_cast<std::byte*>(horo_arena_data(arena_.get())); }
  /// The size of the memory in bytes, at least what was requested.
  std::size_t size() const { return horo_arena_bytes(arena_.get()); }

 private:
  detail::Owner<horo_arena, &horo_arena_destroy> arena_;
};

/// A named span of one rank's time; see Context::phase(). The scope that began last must end first.
class TraceScope {
 public:
  /// Owns `scope`.
  explicit TraceScope(horo_scope* scope) : scope_(scope) {}
  /// Ends the span, as the destructor does. A second call has no effect.
  void end() noexcept { scope_.reset(); }

 private:
  detail::Owner<horo_scope, &horo_scope_end> scope_;
};

/// What a rank has done; the fields of horo/base/counters.h that horo_c.h has.
using Counters = horo_counters;

class ProcessSet;

/// The membership of one rank in a job, made by init(). The destructor leaves the job as shutdown()
/// does, and prints an error to stderr in place of throwing it.
///
/// Operations without `_async` block until the operation has completed. The memory of the tensors
/// of an operation with `_async` must stay valid and untouched until it has completed. All
/// functions, except shutdown(), moving and destruction, may be called from several threads at the
/// same time. horo/context.h describes each operation and its errors.
class Context {
 public:
  /// Owns `context`.
  explicit Context(horo_context* context) : context_(context) {}

  int rank() const { return horo_rank(get()); }              ///< 0 ... size() - 1
  int size() const { return horo_size(get()); }              ///< number of ranks
  int local_rank() const { return horo_local_rank(get()); }  ///< 0 ... local_size() - 1
  int local_size() const { return horo_local_size(get()); }  ///< number of ranks on this node
  int node() const { return horo_node(get()); }              ///< 0 ... node_count() - 1
  int node_count() const { return horo_node_count(get()); }  ///< number of nodes

  /// Reduces `tensor` over all ranks, in place.
  void allreduce(const TensorView& tensor, const AllreduceOptions& options = {}) {
    if (!tensor.is_host_vector() || !detail::is_plain(options))
      return allreduce_async(tensor, options).wait();
    detail::check(horo_allreduce(get(), tensor.data(), tensor.count(), tensor.c_type(),
                                 static_cast<horo_reduce_op>(options.op),
                                 detail::name_or_null(options.name)));
  }
  /// The same, without blocking.
  Handle allreduce_async(const TensorView& tensor, const AllreduceOptions& options = {}) {
    return start(horo_allreduce_async, tensor.as_c(options.name), detail::as_c(options));
  }
  /// Reduces `input` over all ranks into `output`, which has its type and shape.
  void allreduce(const ConstTensorView& input, const TensorView& output,
                 const AllreduceOptions& options = {}) {
    allreduce_async(input, output, options).wait();
  }
  /// The same, without blocking.
  Handle allreduce_async(const ConstTensorView& input, const TensorView& output,
                         const AllreduceOptions& options = {}) {
    return start_into(horo_allreduce_into_async, input, output, options.name,
                      detail::as_c(options));
  }
  /// Reduces several tensors, in place, as one operation.
  void allreduce_group(const std::vector<NamedTensor>& tensors,
                       const AllreduceOptions& options = {}) {
    allreduce_group_async(tensors, options).wait();
  }
  /// The same, without blocking.
  Handle allreduce_group_async(const std::vector<NamedTensor>& tensors,
                               const AllreduceOptions& options = {}) {
    return start_group(horo_allreduce_group_async, tensors, detail::as_c(options));
  }

  /// Copies `tensor` of rank options.root to `tensor` of every other rank.
  void broadcast(const TensorView& tensor, const BroadcastOptions& options = {}) {
    if (!tensor.is_host_vector() || options.stream != nullptr)
      return broadcast_async(tensor, options).wait();
    detail::check(horo_broadcast(get(), tensor.data(), tensor.count(), tensor.c_type(),
                                 options.root, detail::name_or_null(options.name)));
  }
  /// The same, without blocking.
  Handle broadcast_async(const TensorView& tensor, const BroadcastOptions& options = {}) {
    return start(horo_broadcast_async, tensor.as_c(options.name), detail::as_c(options));
  }
  /// Broadcasts several tensors as one operation.
  void broadcast_group(const std::vector<NamedTensor>& tensors,
                       const BroadcastOptions& options = {}) {
    broadcast_group_async(tensors, options).wait();
  }
  /// The same, without blocking.
  Handle broadcast_group_async(const std::vector<NamedTensor>& tensors,
                               const BroadcastOptions& options = {}) {
    return start_group(horo_broadcast_group_async, tensors, detail::as_c(options));
  }

  /// Concatenates the inputs of all ranks along the first dimension.
  void allgather(const ConstTensorView& input, const TensorView& output,
                 const AllgatherOptions& options = {}) {
    allgather_async(input, output, options).wait();
  }
  /// The same, without blocking.
  Handle allgather_async(const ConstTensorView& input, const TensorView& output,
                         const AllgatherOptions& options = {}) {
    return start_into(horo_allgather_async, input, output, options.name,
                      detail::on_stream(options.stream));
  }

  /// Gives each rank its share of the reduced input: shard_rows() rows (first dimension).
  void reduce_scatter(const ConstTensorView& input, const TensorView& output,
                      const ReduceScatterOptions& options = {}) {
    reduce_scatter_async(input, output, options).wait();
  }
  /// The same, without blocking.
  Handle reduce_scatter_async(const ConstTensorView& input, const TensorView& output,
                              const ReduceScatterOptions& options = {}) {
    return start_into(horo_reduce_scatter_async, input, output, options.name,
                      detail::as_c(options));
  }
  /// The rows of this rank's share of `rows`. Not collective.
  std::size_t shard_rows(std::size_t rows) const { return horo_shard_rows(get(), rows); }

  /// Sends rows of `input` to every rank. Returns the number of rows received from each rank.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, const TensorView& output,
                                    const AlltoallOptions& options = {}) {
    AlltoallHandle handle = alltoall_async(input, output, options);
    std::vector<std::size_t> received = handle.received_splits();
    handle.wait();
    return received;
  }
  /// The same, without blocking. Throws InvalidArgument if options.splits has neither 0 nor size()
  /// values.
  AlltoallHandle alltoall_async(const ConstTensorView& input, const TensorView& output,
                                const AlltoallOptions& options = {}) {
    const std::vector<std::size_t>& splits = options.splits;
    if (!splits.empty() && splits.size() != static_cast<std::size_t>(size()))
      throw InvalidArgument("alltoall '" + options.name + "': " + std::to_string(splits.size()) +
                            " splits were given for " + std::to_string(size()) + " ranks");
    const horo_tensor from = input.as_c(options.name), to = output.as_c({});
    const horo_options how = detail::on_stream(options.stream);
    horo_handle* handle = nullptr;
    detail::check(horo_alltoall_async(get(), &from, splits.empty() ? nullptr : splits.data(), &to,
                                      &how, &handle));
    return {handle, size()};
  }

  /// Sends `tensor` to rank options.to, which calls recv() with the same name, type and shape.
  void send(const ConstTensorView& tensor, const SendOptions& options) {
    send_async(tensor, options).wait();
  }
  /// The same, without blocking.
  Handle send_async(const ConstTensorView& tensor, const SendOptions& options) {
    const horo_tensor values = tensor.as_c(options.name);
    horo_handle* handle = nullptr;
    detail::check(horo_send_async(get(), &values, options.to, &handle));
    return Handle(handle);
  }
  /// Stores in `tensor` the values that rank options.from sends.
  void recv(const TensorView& tensor, const ReceiveOptions& options) {
    recv_async(tensor, options).wait();
  }
  /// The same, without blocking.
  Handle recv_async(const TensorView& tensor, const ReceiveOptions& options) {
    const horo_tensor values = tensor.as_c(options.name);
    horo_handle* handle = nullptr;
    detail::check(horo_recv_async(get(), &values, options.from, &handle));
    return Handle(handle);
  }

  /// Copies the bytes of `object` of rank options.root to every other rank, and resizes `object`
  /// there.
  void broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options = {}) {
    void* result = nullptr;
    std::size_t bytes = 0;
    detail::check(horo_broadcast_object(get(), object.data(), object.size(), options.root,
                                        detail::name_or_null(options.name), &result, &bytes));
    const detail::Owner<void, &horo_free> owner(result);
    const auto* const first = static_cast<const std::byte*>(result);
    object.assign(first, first + bytes);
  }
  /// Returns the bytes of every rank, by rank. Ranks may give different numbers of bytes.
  std::vector<std::vector<std::byte>> allgather_object(const std::vector<std::byte>& object,
                                                       const AllgatherOptions& options = {}) {
    void* result = nullptr;
    std::vector<std::size_t> sizes(static_cast<std::size_t>(size()));
    detail::check(horo_allgather_object(get(), object.data(), object.size(),
                                        detail::name_or_null(options.name), &result, sizes.data()));
    const detail::Owner<void, &horo_free> owner(result);
    std::vector<std::vector<std::byte>> objects;
    const auto* next = static_cast<const std::byte*>(result);
    for (const std::size_t bytes : sizes) {
      objects.emplace_back(next, next + bytes);
      next += bytes;
    }
    return objects;
  }

  /// Throws MismatchError on every rank if a tensor differs between ranks, and names it.
  void check_equal(const std::vector<NamedTensor>& tensors, const CheckEqualOptions& options = {}) {
    const std::vector<horo_tensor> list = detail::as_c(tensors);
    detail::check(horo_check_equal(get(), list.data(), list.size(),
                                   detail::name_or_null(options.name), options.every));
  }
  /// Blocks until every rank has called it with the same name.
  void barrier(const BarrierOptions& options = {}) {
    detail::check(horo_barrier(get(), detail::name_or_null(options.name)));
  }
  /// For ranks with different numbers of steps. Returns the rank whose call was last.
  int join() {
    int last_rank = -1;
    detail::check(horo_join(get(), &last_rank));
    return last_rank;
  }

  /// Allocates memory that all ranks of this node have mapped. Collective.
  Arena allocate(std::size_t bytes) {
    horo_arena* arena = nullptr;
    detail::check(horo_arena_create(get(), bytes, &arena));
    return Arena(arena);
  }
  /// Makes a group of ranks, ascending, with operations of its own. Collective: members and others.
  ProcessSet new_process_set(const std::vector<int>& ranks);
  /// What this rank has done.
  Counters counters() const {
    Counters counters = HORO_COUNTERS;
    detail::check(horo_get_counters(get(), &counters));
    return counters;
  }

  /// Begins a phase of this rank, such as "forward", for reports and timelines.
  [[nodiscard]] TraceScope phase(const std::string& name) { return begin(horo_phase_begin, name); }
  /// The same, for work during which the other ranks wait without a timeout.
  [[nodiscard]] TraceScope pause(const std::string& name) { return begin(horo_pause_begin, name); }

  /// Leaves the job. Collective: blocks until every rank has called it. Every later call of another
  /// function throws InvalidArgument, except rank() and the like, which return -1. A second call
  /// has no effect.
  void shutdown() { detail::check(horo_shutdown(context_.release())); }

  /// The object of horo_c.h, for functions that this class does not have. Null after shutdown().
  horo_context* get() const { return context_.get(); }

 private:
  struct Leave {
    void operator()(horo_context* context) const noexcept {
      if (horo_shutdown(context) != HORO_OK) std::fprintf(stderr, "horo: %s\n", horo_last_error());
    }
  };

  template <typename Function>
  Handle start(Function function, const horo_tensor& tensor, const horo_options& options) {
    horo_handle* handle = nullptr;
    detail::check(function(get(), &tensor, &options, &handle));
    return Handle(handle);
  }
  template <typename Function>
  Handle start_into(Function function, const ConstTensorView& input, const TensorView& output,
                    const std::string& name, const horo_options& options) {
    const horo_tensor from = input.as_c(name), to = output.as_c({});
    horo_handle* handle = nullptr;
    detail::check(function(get(), &from, &to, &options, &handle));
    return Handle(handle);
  }
  template <typename Function>
  Handle start_group(Function function, const std::vector<NamedTensor>& tensors,
                     const horo_options& options) {
    const std::vector<horo_tensor> list = detail::as_c(tensors);
    horo_handle* handle = nullptr;
    detail::check(function(get(), list.data(), list.size(), &options, &handle));
    return Handle(handle);
  }
  template <typename Function>
  TraceScope begin(Function function, const std::string& name) {
    horo_scope* scope = nullptr;
    detail::check(function(get(), name.c_str(), &scope));
    return TraceScope(scope);
  }

  std::unique_ptr<horo_context, Leave> context_;
};

/// A group of ranks with operations of its own, among its members. On a rank that is not a member,
/// only size(), includes_me() and close() may be called. The destructor closes the set.
class ProcessSet : public Context {
 public:
  using Context::Context;
  /// Whether this rank is a member.
  bool includes_me() const { return horo_process_set_includes_me(get()) != 0; }
  /// Closes the set. Collective over the members: blocks until every member has called it.
  void close() { shutdown(); }
};

inline ProcessSet Context::new_process_set(const std::vector<int>& ranks) {
  horo_context* set = nullptr;
  detail::check(horo_process_set_create(get(), ranks.data(), ranks.size(), &set));
  return ProcessSet(set);
}

/// Joins the job that mpirun or hororun started; alone, a job of one rank. Collective.
inline Context init() {
  horo_context* context = nullptr;
  detail::check(horo_init(&context));
  return Context(context);
}
/// Makes a job of the ranks of a communicator. `communicator` is the address of an MPI_Comm. The
/// program must have initialised MPI; horo/mpi.h states what each thread level means. Collective
/// over the communicator.
inline Context init_communicator(const void* communicator) {
  horo_context* context = nullptr;
  detail::check(horo_init_communicator(communicator, &context));
  return Context(context);
}
/// How the ranks of a job find each other without MPI, or with an MPI that horo was not built for;
/// see horo/bootstrap.h.
struct Bootstrap {
  int rank = 0;  ///< of this process, 0 ... size - 1
  int size = 1;  ///< the number of ranks of the job
  /// Copies the `bytes` bytes at `own` of every rank to `all`, in rank order. Collective. An
  /// exception ends init().
  std::function<void(const std::byte* own, std::size_t bytes, std::byte* all)> allgather;
};
/// Joins a job of `bootstrap.size` ranks. Calls `bootstrap.allgather` only before it returns, on
/// this thread. Rethrows its exception. Collective.
inline Context init(const Bootstrap& bootstrap) {
  struct Call {
    const Bootstrap& bootstrap;
    std::exception_ptr error;
  };
  Call call{bootstrap, nullptr};
  const horo_bootstrap ranks{sizeof(horo_bootstrap), bootstrap.rank, bootstrap.size,
                             [](const void* own, std::size_t bytes, void* all, void* data) {
                               auto& to = *static_cast<Call*>(data);
                               try {
                                 to.bootstrap.allgather(static_cast<const std::byte*>(own), bytes,
                                                        static_cast<std::byte*>(all));
                                 return 0;
                               } catch (...) {
                                 to.error = std::current_exception();
                                 return 1;
                               }
                             },
                             &call};
  horo_context* context = nullptr;
  const horo_status status = horo_init_bootstrap(&ranks, &context);
  if (call.error != nullptr) std::rethrow_exception(call.error);
  detail::check(status);
  return Context(context);
}
/// Opens the GPU of this rank, for views of its memory. Collective. Destroy everything that uses
/// the device first.
inline std::shared_ptr<Device> open_gpu(Context& context) {
  horo_device* device = nullptr;
  detail::check(horo_open_gpu(context.get(), &device));
  return {device, &horo_device_destroy};
}
/// The version of the library, such as "0.1.0".
inline std::string version() { return horo_version(); }

// ---- Gradients ----

/// How float32 gradients are compressed; see horo/base/compression.h.
struct Compression {
  /// The method.
  enum class Kind : std::uint8_t {
    kNone = HORO_NO_COMPRESSION,  ///< all gradients are sent uncompressed
    kPowerSgd = HORO_POWERSGD,    ///< PowerSGD, with `rank`
    kTopK = HORO_TOP_K,           ///< the largest values, with `fraction`
    kInt8 = HORO_INT8_BLOCKS,     ///< 8 bits for each value
  };
  Kind kind = Kind::kNone;  ///< the method
  std::size_t rank = 4;     ///< the rank of the factors of PowerSGD
  double fraction = 0.01;   ///< the part of the values that kTopK sends
};

/// The options of GradientSync; see horo/base/gradient_sync_options.h.
struct GradientSyncOptions {
  std::string name{};                               ///< empty: "gradients.0" and so on
  ReduceOp op = ReduceOp::kAverage;                 ///< how the gradients are combined
  std::optional<std::size_t> bucket_bytes{};        ///< without: HORO_BUCKET_BYTES
  std::optional<DataType> wire{};                   ///< between nodes: kFloat16 or kBFloat16
  Compression compression{};                        ///< approximate, with fewer bytes
  std::optional<std::size_t> first_bucket_bytes{};  ///< without: no separate limit
  bool reorder = false;                             ///< pack in the order of readiness
  std::size_t backward_passes_per_step = 1;         ///< only the last one exchanges
  bool find_unused = false;                         ///< a step may leave gradients unmarked
  bool weighted = false;                            ///< allows set_weight()
  std::optional<double> clip_norm{};                ///< without: no clipping
  bool check_finite = false;                        ///< the report names non-finite values
};

/// The result of a step, the same on all ranks.
using StepReport = horo_step_report;

/// Averages (or otherwise reduces) the same set of gradients every step, in place, while backward
/// runs. horo/gradient_sync.h describes each function. ready() may be called from several threads
/// at the same time; all other functions by one thread at a time.
class GradientSync {
 public:
  /// Registers the gradients. Collective. Their memory must stay in place.
  GradientSync(Context& context, const std::vector<NamedTensor>& gradients,
               const GradientSyncOptions& options = {}) {
    const std::vector<horo_tensor> list = detail::as_c(gradients);
    const horo_gradient_sync_options how = as_c(options);
    horo_gradient_sync* sync = nullptr;
    detail::check(horo_gradient_sync_create(context.get(), list.data(), list.size(), &how, &sync));
    sync_.reset(sync);
  }

  /// Marks gradient `index` as final in this pass. Does not wait for other ranks.
  void ready(std::size_t index) { detail::check(horo_gradient_sync_ready(get(), index)); }
  /// The same in device memory, after the work that is enqueued on `stream` now.
  void ready(std::size_t index, void* stream) {
    detail::check(horo_gradient_sync_ready_on(get(), index, stream));
  }
  /// Ends a pass: blocks until every gradient is reduced.
  StepReport wait() {
    detail::check(horo_gradient_sync_wait(get()));
    return report();
  }
  /// Ends a pass in device memory: later work of `stream` starts after every gradient is reduced.
  void wait_on(void* stream) { detail::check(horo_gradient_sync_wait_on(get(), stream)); }
  /// Marks all gradients ready and ends the pass.
  StepReport exchange() {
    detail::check(horo_gradient_sync_exchange(get()));
    return report();
  }
  /// The report of the latest step. In device memory, blocks until the device has run it.
  StepReport report() {
    StepReport report = HORO_STEP_REPORT;
    detail::check(horo_gradient_sync_report(get(), &report));
    return report;
  }

  /// A scope in which passes exchange nothing. The GradientSync must outlive it.
  class NoSync {
   public:
    /// Begins the scope.
    explicit NoSync(GradientSync& sync) : sync_(sync.get()) {
      detail::check(horo_gradient_sync_begin_no_sync(sync_));
    }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { horo_gradient_sync_end_no_sync(sync_); }

   private:
    horo_gradient_sync* sync_;
  };
  /// Begins a scope in which passes exchange nothing; the pass after it ends the step.
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// The weight of this rank in this step and all later ones.
  void set_weight(double weight) { detail::check(horo_gradient_sync_set_weight(get(), weight)); }
  /// Takes part in the steps of the other ranks with weight 0 until all ranks have called join().
  /// Calls `after_step`, if it is not empty, after each of these steps. Rethrows its exception.
  int join(const std::function<void(const StepReport&)>& after_step = {}) {
    Joining joining{*this, after_step, nullptr};
    int last_rank = -1;
    const horo_status status =
        horo_gradient_sync_join(get(), after_step ? &Joining::call : nullptr, &joining, &last_rank);
    if (joining.error != nullptr) std::rethrow_exception(joining.error);
    detail::check(status);
    return last_rank;
  }
  /// Registers other gradients in place of the registered ones. Collective, after the same step.
  void update(const std::vector<NamedTensor>& gradients) {
    const std::vector<horo_tensor> list = detail::as_c(gradients);
    detail::check(horo_gradient_sync_update(get(), list.data(), list.size()));
  }
  /// With find_unused: the gradients that this rank did not mark in its latest step, ascending.
  std::vector<std::size_t> unused() const {
    const std::size_t* indices = nullptr;
    std::size_t count = 0;
    detail::check(horo_gradient_sync_unused(get(), &indices, &count));
    return {indices, indices + count};
  }
  /// The number of buckets.
  std::size_t bucket_count() const { return horo_gradient_sync_bucket_count(get()); }
  /// Whether the bucket is reduced in the arenas in which its gradients lie.
  bool is_in_place(std::size_t bucket) const {
    return horo_gradient_sync_is_in_place(get(), bucket) != 0;
  }
  /// The object of horo_c.h.
  horo_gradient_sync* get() const { return sync_.get(); }

 private:
  /// What join() passes through horo_c.h.
  struct Joining {
    GradientSync& sync;
    const std::function<void(const StepReport&)>& after_step;
    std::exception_ptr error;

    static void call(void* user) {
      auto& joining = *static_cast<Joining*>(user);
      try {
        joining.after_step(joining.sync.report());
      } catch (...) {
        joining.error = std::current_exception();
        throw;  // ends horo_gradient_sync_join()
      }
    }
  };

  static horo_gradient_sync_options as_c(const GradientSyncOptions& options) {
    horo_gradient_sync_options result = HORO_GRADIENT_SYNC_OPTIONS;
    result.name = detail::name_or_null(options.name);
    result.op = static_cast<horo_reduce_op>(options.op);
    result.bucket_bytes = options.bucket_bytes.value_or(result.bucket_bytes);
    result.first_bucket_bytes = options.first_bucket_bytes.value_or(result.first_bucket_bytes);
    if (options.wire) result.wire = static_cast<horo_data_type>(*options.wire);
    result.compression = static_cast<horo_compression>(options.compression.kind);
    result.compression_rank = options.compression.rank;
    result.compression_fraction = options.compression.fraction;
    result.backward_passes_per_step = options.backward_passes_per_step;
    result.find_unused = options.find_unused ? 1 : 0;
    result.weighted = options.weighted ? 1 : 0;
    result.clip_norm = options.clip_norm.value_or(result.clip_norm);
    result.check_finite = options.check_finite ? 1 : 0;
    result.reorder = options.reorder ? 1 : 0;
    return result;
  }

  detail::Owner<horo_gradient_sync, &horo_gradient_sync_destroy> sync_;
};

}  // namespace horo::cxx17
