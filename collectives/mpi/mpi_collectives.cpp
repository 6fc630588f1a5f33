#include "collectives/mpi/mpi_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// An MPI_User_function, which computes in_out[i] = in[i] Op in_out[i].
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

// The callers ensure that the total is at most largest_message_, so each size fits into an int.
std::vector<int> to_ints(std::span<const std::size_t> sizes) {
  return {sizes.begin(), sizes.end()};
}

std::vector<int> offsets_of(const PartOffsets& parts, std::size_t count) {
  std::vector<int> offsets;
  for (std::size_t r = 0; r < count; ++r)
    offsets.push_back(static_cast<int>(parts[static_cast<int>(r)].begin));
  return offsets;
}

}  // namespace

// half_ is an opaque type of two bytes for both 16-bit floats. The predefined operations of MPI do
// not apply to it.
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

// MPI_Type_free and MPI_Op_free must not be called after MPI_Finalize.
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

MpiCollectives::MpiCollectives(MpiComm comm, const WaitPolicy& policy, std::size_t largest_message)
    : comm_(std::move(comm)),
      policy_(policy),
      largest_message_(largest_message),
      rank_(comm_.rank()),
      size_(comm_.size()) {}

void MpiCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  if (buffer.count() == 0) return;
  std::byte* data = packed(buffer);
  const std::size_t width = buffer.element_bytes();
  for_each_piece(buffer.count(), largest_message_ / width, [&](std::size_t offset, int count) {
    HORO_MPI(MPI_Allreduce(MPI_IN_PLACE, data + offset * width, count,
                           operations_.type_of(buffer.type()),
                           operations_.operation_of(buffer.type(), op), comm_.get()));
  });
  divide_if_average(buffer.type(), op, data, buffer.count(), size_);
  unpack(buffer, data);
}

void MpiCollectives::broadcast(const ScatteredBuffer& buffer, int root) {
  if (buffer.count() == 0) return;
  std::byte* data = packed(buffer);
  for_each_piece(buffer.bytes(), largest_message_, [&](std::size_t offset, int count) {
    HORO_MPI(MPI_Bcast(data + offset, count, MPI_BYTE, root, comm_.get()));
  });
  if (rank_ != root) unpack(buffer, data);
}

void MpiCollectives::allgather(std::span<const std::byte> input,
                               std::span<const std::size_t> bytes_of, std::span<std::byte> output) {
  const PartOffsets parts(bytes_of);
  std::byte* const own = output.data() + parts[rank_].begin;
  if (!input.empty() && input.data() != own) std::memcpy(own, input.data(), input.size());
  if (parts.total() <= largest_message_) {
    HORO_MPI(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, output.data(), to_ints(bytes_of).data(),
                            offsets_of(parts, bytes_of.size()).data(), MPI_BYTE, comm_.get()));
    return;
  }
  for (int r = 0; r < size_; ++r)
    for_each_piece(parts[r].count(), largest_message_, [&](std::size_t offset, int count) {
      HORO_MPI(MPI_Bcast(output.data() + parts[r].begin + offset, count, MPI_BYTE, r, comm_.get()));
    });
}

void MpiCollectives::reduce_scatter(const std::byte* input, DataType type,
                                    std::span<const std::size_t> count_of, std::byte* output,
                                    ReduceOp op) {
  const std::size_t total = std::accumulate(count_of.begin(), count_of.end(), std::size_t{0});
  if (total == 0) return;
  if (total * size_of(type) <= largest_message_)
    HORO_MPI(MPI_Reduce_scatter(input, output, to_ints(count_of).data(), operations_.type_of(type),
                                operations_.operation_of(type, op), comm_.get()));
  else
    reduce_to_each(input, type, count_of, output, op);
  divide_if_average(type, op, output, count_of[static_cast<std::size_t>(rank_)], size_);
}

void MpiCollectives::alltoall(std::span<const std::byte> input,
                              std::span<const std::size_t> bytes_to, std::span<std::byte> output,
                              std::span<const std::size_t> bytes_from) {
  // All ranks must use the same algorithm, so they choose it by the largest size on any rank.
  std::uint64_t largest = std::max(input.size(), output.size());
  HORO_MPI(MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_UINT64_T, MPI_MAX, comm_.get()));
  if (largest > largest_message_)
    return exchange_pairs(AlltoallBlocks(input, bytes_to, output, bytes_from));
  HORO_MPI(MPI_Alltoallv(input.data(), to_ints(bytes_to).data(),
                         offsets_of(PartOffsets(bytes_to), bytes_to.size()).data(), MPI_BYTE,
                         output.data(), to_ints(bytes_from).data(),
                         offsets_of(PartOffsets(bytes_from), bytes_from.size()).data(), MPI_BYTE,
                         comm_.get()));
}

void MpiCollectives::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Ibarrier(comm_.get(), &request));
  wait_for_mpi(request, policy_, "for all ranks to reach a barrier");
}

void MpiCollectives::reduce_to_each(const std::byte* input, DataType type,
                                    std::span<const std::size_t> count_of, std::byte* output,
                                    ReduceOp op) {
  const PartOffsets parts(count_of);
  const std::size_t width = size_of(type);
  for (int root = 0; root < size_; ++root)
    for_each_piece(parts[root].count(), largest_message_ / width,
                   [&](std::size_t offset, int count) {
                     HORO_MPI(MPI_Reduce(input + (parts[root].begin + offset) * width,
                                         output + offset * width, count, operations_.type_of(type),
                                         operations_.operation_of(type, op), root, comm_.get()));
                   });
}

// In each step, the exchange posts its receives and sends before it waits, so it cannot deadlock.
void MpiCollectives::exchange_pairs(const AlltoallBlocks& blocks) {
  blocks.copy_own(rank_);
  for (int distance = 1; distance < size_; ++distance) {
    const int from = (rank_ + size_ - distance) % size_;
    const int to = (rank_ + distance) % size_;
    std::vector<MPI_Request> requests;
    for_each_piece(blocks.from(from).size(), largest_message_, [&](std::size_t offset, int count) {
      HORO_MPI(MPI_Irecv(blocks.from(from).data() + offset, count, MPI_BYTE, from, 0, comm_.get(),
                         &requests.emplace_back(MPI_REQUEST_NULL)));
    });
    for_each_piece(blocks.to(to).size(), largest_message_, [&](std::size_t offset, int count) {
      HORO_MPI(MPI_Isend(blocks.to(to).data() + offset, count, MPI_BYTE, to, 0, comm_.get(),
                         &requests.emplace_back(MPI_REQUEST_NULL)));
    });
    HORO_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  }
}

std::byte* MpiCollectives::packed(const ScatteredBuffer& buffer) {
  const Range all{0, buffer.count()};
  if (std::byte* address = contiguous_address(buffer, all)) return address;
  if (staging_.size() < buffer.bytes()) staging_.resize(buffer.bytes());
  gather(buffer, all, staging_.data());
  return staging_.data();
}

void MpiCollectives::unpack(const ScatteredBuffer& buffer, const std::byte* data) {
  // If packed() has returned the address of the buffer itself, the values are already in place.
  if (data == staging_.data()) scatter(buffer, {0, buffer.count()}, data);
}

}  // namespace horo::collectives
