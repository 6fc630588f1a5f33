#include "horo/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>

#include "collectives/chunks.h"
#include "horo/base/log.h"
#include "horo/runtime.h"

namespace horo {
namespace {

using coordinator::Entry;
using coordinator::Kind;

Entry make_entry(Kind kind, const std::string& name, const TensorView& input) {
  HORO_CHECK(input.data() != nullptr || input.count() == 0,
             fmt::format("{} '{}': the tensor has no memory", coordinator::name_of(kind), name));
  Entry entry;
  entry.request.name = name;
  entry.request.kind = kind;
  entry.request.type = input.type();
  entry.request.shape = input.shape();
  entry.input = input;
  return entry;
}

void check_output(std::string_view operation, const std::string& name, const TensorView& input,
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

// The splits as given, or the even ones.
std::vector<std::size_t> splits_of(const TensorView& input, const AlltoallOptions& options,
                                   std::size_t ranks) {
  const std::size_t rows = input.shape()[0];
  if (options.splits.empty()) return collectives::chunk_sizes(rows, ranks);
  HORO_CHECK(options.splits.size() == ranks,
             fmt::format("alltoall '{}': {} splits were given for {} ranks", options.name,
                         options.splits.size(), ranks));
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

}  // namespace

Context::Context(std::shared_ptr<Runtime> runtime)
    : runtime_(std::move(runtime)), exceptions_at_start_(std::uncaught_exceptions()) {}
Context::Context(RuntimePointer runtime)
    : runtime_(std::move(runtime)), exceptions_at_start_(std::uncaught_exceptions()) {}
Context::Context(Context&&) noexcept = default;

Context& Context::operator=(Context&& other) noexcept {
  runtime_ = std::move(other.runtime_);
  std::swap(exceptions_at_start_, other.exceptions_at_start_);
  return *this;
}

Context::~Context() {
  if (runtime_.is_elsewhere()) return;
  try {
    shutdown();
  } catch (const std::exception& error) {
    log_error("shutdown: {}", error.what());
  }
}

void Context::shutdown() {
  if (!runtime_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    runtime_->fail_unwinding();
  } else {
    runtime_->shut_down();
  }
}

int Context::rank() const { return runtime_->topology().rank; }
int Context::size() const { return runtime_->topology().size; }
int Context::local_rank() const { return runtime_->topology().local_rank; }
int Context::local_size() const { return runtime_->topology().local_size; }
int Context::node() const { return runtime_->topology().node; }
int Context::node_count() const { return runtime_->topology().node_count; }

Handle Context::allreduce_async(TensorView tensor, const AllreduceOptions& options) {
  HORO_CHECK(is_elementwise(options.op) || is_floating(tensor.type()),
             fmt::format("allreduce '{}': Adasum is for floating point, not {}; choose a sum or an "
                         "average",
                         options.name, name_of(tensor.type())));
  Entry entry = make_entry(Kind::kAllreduce, options.name, tensor);
  entry.request.op = options.op;
  return Handle(runtime_->submit(std::move(entry)));
}

Handle Context::broadcast_async(TensorView tensor, const BroadcastOptions& options) {
  HORO_CHECK(options.root >= 0 && options.root < size(),
             fmt::format("broadcast '{}': root {} is not one of the {} ranks 0 ... {}",
                         options.name, options.root, size(), size() - 1));
  Entry entry = make_entry(Kind::kBroadcast, options.name, tensor);
  entry.request.root = options.root;
  return Handle(runtime_->submit(std::move(entry)));
}

Handle Context::allgather_async(TensorView input, TensorView output,
                                const AllgatherOptions& options) {
  check_output("allgather", options.name, input, output);
  Entry entry = make_entry(Kind::kAllgather, options.name, input);
  entry.output = output;
  return Handle(runtime_->submit(std::move(entry)));
}

Handle Context::reduce_scatter_async(TensorView input, TensorView output,
                                     const ReduceScatterOptions& options) {
  HORO_CHECK(is_elementwise(options.op),
             fmt::format("reduce_scatter '{}': Adasum is for allreduce only", options.name));
  check_output("reduce_scatter", options.name, input, output);
  HORO_CHECK(output.shape()[0] == shard_rows(input.shape()[0]),
             fmt::format("reduce_scatter '{}': rank {} gets {} of {} rows, but its output has {}",
                         options.name, runtime_->topology().job_rank(rank()),
                         shard_rows(input.shape()[0]), input.shape()[0], output.shape()[0]));
  Entry entry = make_entry(Kind::kReduceScatter, options.name, input);
  entry.request.op = options.op;
  entry.output = output;
  return Handle(runtime_->submit(std::move(entry)));
}

AlltoallHandle Context::alltoall_async(TensorView input, TensorView output,
                                       const AlltoallOptions& options) {
  check_output("alltoall", options.name, input, output);
  Entry entry = make_entry(Kind::kAlltoall, options.name, input);
  entry.request.splits = splits_of(input, options, static_cast<std::size_t>(size()));
  entry.output = output;
  entry.received_splits = std::make_shared<std::vector<std::size_t>>();
  const auto received_splits = entry.received_splits;
  return {Handle(runtime_->submit(std::move(entry))), received_splits};
}

void Context::allreduce(TensorView tensor, const AllreduceOptions& options) {
  allreduce_async(tensor, options).wait();
}
void Context::broadcast(TensorView tensor, const BroadcastOptions& options) {
  broadcast_async(tensor, options).wait();
}
void Context::allgather(TensorView input, TensorView output, const AllgatherOptions& options) {
  allgather_async(input, output, options).wait();
}
void Context::reduce_scatter(TensorView input, TensorView output,
                             const ReduceScatterOptions& options) {
  reduce_scatter_async(input, output, options).wait();
}

std::vector<std::size_t> Context::alltoall(TensorView input, TensorView output,
                                           const AlltoallOptions& options) {
  return alltoall_async(input, output, options).received_splits();
}

std::size_t Context::shard_rows(std::size_t rows) const {
  return collectives::chunk_of(rows, static_cast<std::size_t>(size()),
                               static_cast<std::size_t>(rank()))
      .count();
}

void Context::barrier(const BarrierOptions& options) {
  Handle(runtime_->submit(make_entry(Kind::kBarrier, options.name, TensorView()))).wait();
}

Counters Context::counters() const { return runtime_->counters(); }

Phase Context::phase(std::string_view name) {
  return Phase(runtime_.get(), Phase::Kind::kPhase, name);
}
Phase Context::pause(std::string_view name) {
  return Phase(runtime_.get(), Phase::Kind::kPause, name);
}

}  // namespace horo
