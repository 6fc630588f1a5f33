#include "horo/runtime/operation_entries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/chunks.h"
#include "horo/base/error.h"
#include "horo/coordinator/allreduce_checks.h"

namespace horo {
namespace {

using coordinator::Kind;
using coordinator::ScaleFactors;

// An entry holds its input as writable memory, because allreduce and broadcast work in place.
// Operations with a separate output only read the input.
TensorView writable(const ConstTensorView& input) {
  void* const data = const_cast<void*>(input.data());
  if (input.device() == nullptr) return {data, input.type(), input.shape()};
  return {data, input.type(), input.shape(), *input.device()};
}

Entry make_entry(Kind kind, const std::string& name, const ConstTensorView& input) {
  HORO_CHECK(input.data() != nullptr || input.count() == 0,
             fmt::format("{} '{}': the tensor has no memory", coordinator::name_of(kind), name));
  Entry entry;
  entry.request.name = name;
  entry.request.kind = kind;
  entry.request.type = input.type();
  entry.request.shape = input.shape();
  entry.input = writable(input);
  return entry;
}

void check_output(std::string_view operation, const std::string& name, const ConstTensorView& input,
                  const TensorView& output) {
  HORO_CHECK(
      input.shape().rank() > 0 && output.shape().rank() == input.shape().rank(),
      fmt::format(
          "{} '{}': input {} and output {} must have the same number of dimensions, at least one",
          operation, name, input.shape().to_string(), output.shape().to_string()));
  HORO_CHECK(output.data() != nullptr || output.count() == 0,
             fmt::format("{} '{}': the output has no memory", operation, name));
  HORO_CHECK(input.type() == output.type(),
             fmt::format("{} '{}': input is {}, output is {}", operation, name,
                         name_of(input.type()), name_of(output.type())));
  for (std::size_t axis = 1; axis < input.shape().rank(); ++axis)
    HORO_CHECK(input.shape()[axis] == output.shape()[axis],
               fmt::format("{} '{}': input {} and output {} may differ in the first dimension only",
                           operation, name, input.shape().to_string(), output.shape().to_string()));
}

// Returns the given splits. If there are none, divides the rows evenly.
std::vector<std::size_t> splits_of(const ConstTensorView& input, const AlltoallOptions& options,
                                   std::size_t ranks) {
  const std::size_t rows = input.shape()[0];
  if (options.splits.empty()) return collectives::chunk_sizes(rows, ranks);
  HORO_CHECK(options.splits.size() == ranks,
             fmt::format("alltoall '{}': {} splits were given for {} ranks", options.name,
                         options.splits.size(), ranks));
  // `left` wraps around if a split exceeds it. is_exact records this, because `left` may still end
  // at 0.
  std::size_t left = rows;
  bool is_exact = true;
  for (const std::size_t split : options.splits) {
    is_exact = is_exact && split <= left;
    left -= split;
  }
  HORO_CHECK(
      is_exact && left == 0,
      fmt::format("alltoall '{}': the splits {} do not add up to the {} rows of the input {}",
                  options.name, fmt::join(options.splits, " + "), rows, input.shape().to_string()));
  return options.splits;
}

void check_root(std::string_view operation, const BroadcastOptions& options,
                const Topology& topology) {
  HORO_CHECK(options.root >= 0 && options.root < topology.size,
             fmt::format("{} '{}': root {} is not one of the {} ranks 0 ... {}", operation,
                         options.name, options.root, topology.size, topology.size - 1));
}

// A group without a name has the name of its first tensor.
Entry make_group_entry(Kind kind, const std::string& name, std::span<const NamedTensor> tensors) {
  HORO_CHECK(!tensors.empty(),
             fmt::format("{} of a group: pass at least one tensor", coordinator::name_of(kind)));
  Entry entry;
  entry.request.kind = kind;
  entry.request.name = name.empty() ? tensors.front().name : name;
  for (const NamedTensor& tensor : tensors) {
    HORO_CHECK(!tensor.name.empty(), fmt::format("{} of a group '{}': every tensor needs a name",
                                                 coordinator::name_of(kind), entry.request.name));
    HORO_CHECK(
        tensor.tensor.data() != nullptr || tensor.tensor.count() == 0,
        fmt::format("{} '{}': the tensor has no memory", coordinator::name_of(kind), tensor.name));
    entry.request.members.push_back({tensor.name, tensor.tensor.type(), tensor.tensor.shape()});
    entry.members.push_back(tensor.tensor);
  }
  return entry;
}

}  // namespace

// Divides the rows as Collectives::reduce_scatter() does. If the rows do not divide evenly, each of
// the first ranks has one row more.
std::size_t rows_of_shard(std::size_t rows, const Topology& topology) {
  return collectives::chunk_of(rows, static_cast<std::size_t>(topology.size),
                               static_cast<std::size_t>(topology.rank))
      .count();
}

Entry allreduce_entry(const TensorView& tensor, const AllreduceOptions& options) {
  const ScaleFactors factors{options.prescale, options.postscale};
  check_op_type("allreduce", options.name, options.op, tensor.type());
  check_scale("allreduce", options.name, tensor.type(), factors);
  Entry entry = make_entry(Kind::kAllreduce, options.name, tensor);
  entry.request.op = options.op;
  entry.request.scale = factors;
  return entry;
}

// TensorQueue copies `initial` after it has accepted the entry, so a rejected entry leaves `output`
// unchanged.
Entry allreduce_entry(const ConstTensorView& input, const TensorView& output,
                      const AllreduceOptions& options) {
  check_allreduce_output(options.name, input, output);
  Entry entry = allreduce_entry(output, options);
  if (input.data() != output.data() && input.bytes() > 0) entry.initial = input;
  return entry;
}

Entry allreduce_group_entry(std::span<const NamedTensor> tensors, const AllreduceOptions& options) {
  const ScaleFactors factors{options.prescale, options.postscale};
  for (const NamedTensor& tensor : tensors) {
    check_op_type("allreduce", tensor.name, options.op, tensor.tensor.type());
    check_scale("allreduce", tensor.name, tensor.tensor.type(), factors);
  }
  check_apart(tensors);
  Entry entry = make_group_entry(Kind::kAllreduce, options.name, tensors);
  entry.request.op = options.op;
  entry.request.scale = factors;
  return entry;
}

Entry broadcast_entry(const TensorView& tensor, const BroadcastOptions& options,
                      const Topology& topology) {
  check_root("broadcast", options, topology);
  Entry entry = make_entry(Kind::kBroadcast, options.name, tensor);
  entry.request.root = options.root;
  return entry;
}

Entry broadcast_group_entry(std::span<const NamedTensor> tensors, const BroadcastOptions& options,
                            const Topology& topology) {
  check_root("broadcast_group", options, topology);
  Entry entry = make_group_entry(Kind::kBroadcast, options.name, tensors);
  entry.request.root = options.root;
  return entry;
}

Entry allgather_entry(const ConstTensorView& input, const TensorView& output,
                      const AllgatherOptions& options) {
  check_output("allgather", options.name, input, output);
  Entry entry = make_entry(Kind::kAllgather, options.name, input);
  entry.output = output;
  return entry;
}

Entry reduce_scatter_entry(const ConstTensorView& input, const TensorView& output,
                           const ReduceScatterOptions& options, const Topology& topology) {
  HORO_CHECK(is_elementwise(options.op),
             fmt::format("reduce_scatter '{}': Adasum is for allreduce only", options.name));
  check_op_type("reduce_scatter", options.name, options.op, input.type());
  const ScaleFactors factors{options.prescale, options.postscale};
  check_scale("reduce_scatter", options.name, input.type(), factors);
  check_output("reduce_scatter", options.name, input, output);
  const std::size_t rows = rows_of_shard(input.shape()[0], topology);
  HORO_CHECK(output.shape()[0] == rows,
             fmt::format("reduce_scatter '{}': rank {} gets {} of {} rows, but its output has {}",
                         options.name, topology.job_rank(topology.rank), rows, input.shape()[0],
                         output.shape()[0]));
  Entry entry = make_entry(Kind::kReduceScatter, options.name, input);
  entry.request.op = options.op;
  entry.request.scale = factors;
  entry.output = output;
  return entry;
}

Entry alltoall_entry(const ConstTensorView& input, const TensorView& output,
                     const AlltoallOptions& options, const Topology& topology) {
  check_output("alltoall", options.name, input, output);
  Entry entry = make_entry(Kind::kAlltoall, options.name, input);
  entry.request.splits = splits_of(input, options, static_cast<std::size_t>(topology.size));
  entry.output = output;
  entry.received_splits = std::make_shared<std::vector<std::size_t>>();
  return entry;
}

Entry barrier_entry(const BarrierOptions& options) {
  return make_entry(Kind::kBarrier, options.name, TensorView());
}

Entry join_entry() {
  Entry entry;
  entry.request.name = coordinator::kJoinName;
  entry.request.kind = Kind::kJoin;
  entry.last_to_join = std::make_shared<int>(0);
  return entry;
}

}  // namespace horo
