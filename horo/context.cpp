#include "horo/context.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>

#include "horo/base/text/log.h"
#include "horo/runtime/equality_check.h"
#include "horo/runtime/message_entries.h"
#include "horo/runtime/operation_entries.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

// broadcast_object() and allgather_object() run two operations. The operation on the contents has
// the name that the user has given. part_name() returns the name of the other operation.
std::string part_name(const std::string& name, const char* part) { return name + "." + part; }

// Leaves the operation to the owner of the coordinator's rounds, usually the coordinator's thread.
// The blocking functions call Runtime::perform(), which may run the operation on the caller's
// thread. This saves two thread switches.
Handle submit(Runtime& runtime, Entry entry, void* stream) {
  coordinator::Submitted submitted = runtime.submit(std::move(entry), stream);
  return Handle(std::move(submitted.completion), std::move(submitted.on_device));
}

}  // namespace

// A program may make a Context in a destructor while an exception unwinds the stack. shutdown()
// therefore compares the number of exceptions with the number at construction.
Context::Context(std::shared_ptr<Runtime> runtime)
    : runtime_(std::move(runtime)), exceptions_at_start_(std::uncaught_exceptions()) {}
Context::Context(RuntimePointer runtime)
    : runtime_(std::move(runtime)), exceptions_at_start_(std::uncaught_exceptions()) {}
Context::Context(Context&&) noexcept = default;

// The two objects swap their runtimes. The previous runtime of this object shuts down when `other`
// is destroyed.
Context& Context::operator=(Context&& other) noexcept {
  runtime_ = std::move(other.runtime_);
  std::swap(exceptions_at_start_, other.exceptions_at_start_);
  return *this;
}

// A child process of fork() has copies of the objects but not of the threads, so it must not shut
// down. A completion callback cannot wait for the shutdown. The thread that runs the callback may
// be the coordinator's thread, which has to complete the shutdown.
Context::~Context() {
  if (!runtime_ || runtime_.is_elsewhere()) return;
  try {
    if (coordinator::is_in_callback())
      end_job_in_callback();
    else
      shutdown();
  } catch (const std::exception& error) {
    log_error("shutdown: {}", error.what());
  }
}

// Without end_job(), the other ranks would wait for a shutdown() that this rank never submits.
void Context::end_job_in_callback() {
  if (runtime_->is_closed()) return;
  const std::string text = fmt::format(
      "{} destroyed its Context in a completion callback, where shutdown() cannot wait for the "
      "other ranks: destroy it on a thread of the program",
      runtime_->topology().describe(rank()));
  log_error("{}", text);
  runtime_->end_job(text);
}

// While an exception unwinds the stack, the other ranks may wait for an operation that this rank
// will not submit. In that case, waiting for their shutdown() would deadlock, so this rank reports
// its failure instead.
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
  return submit(*runtime_.get(), allreduce_entry(tensor, options), options.stream);
}
Handle Context::allreduce_async(const ConstTensorView& input, TensorView output,
                                const AllreduceOptions& options) {
  return submit(*runtime_.get(), allreduce_entry(input, output, options), options.stream);
}
Handle Context::broadcast_async(TensorView tensor, const BroadcastOptions& options) {
  return submit(*runtime_.get(), broadcast_entry(tensor, options, runtime_->topology()),
                options.stream);
}
Handle Context::allgather_async(const ConstTensorView& input, TensorView output,
                                const AllgatherOptions& options) {
  return submit(*runtime_.get(), allgather_entry(input, output, options), options.stream);
}
Handle Context::reduce_scatter_async(const ConstTensorView& input, TensorView output,
                                     const ReduceScatterOptions& options) {
  return submit(*runtime_.get(), reduce_scatter_entry(input, output, options, runtime_->topology()),
                options.stream);
}
AlltoallHandle Context::alltoall_async(const ConstTensorView& input, TensorView output,
                                       const AlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, options, runtime_->topology());
  // The handle shares the vector, which is filled before the operation completes.
  const auto received_splits = entry.received_splits;
  return {submit(*runtime_.get(), std::move(entry), options.stream), received_splits};
}

void Context::allreduce(TensorView tensor, const AllreduceOptions& options) {
  runtime_->perform(allreduce_entry(tensor, options), options.stream);
}
void Context::allreduce(const ConstTensorView& input, TensorView output,
                        const AllreduceOptions& options) {
  runtime_->perform(allreduce_entry(input, output, options), options.stream);
}
void Context::broadcast(TensorView tensor, const BroadcastOptions& options) {
  runtime_->perform(broadcast_entry(tensor, options, runtime_->topology()), options.stream);
}
void Context::allgather(const ConstTensorView& input, TensorView output,
                        const AllgatherOptions& options) {
  runtime_->perform(allgather_entry(input, output, options), options.stream);
}
void Context::reduce_scatter(const ConstTensorView& input, TensorView output,
                             const ReduceScatterOptions& options) {
  runtime_->perform(reduce_scatter_entry(input, output, options, runtime_->topology()),
                    options.stream);
}
std::vector<std::size_t> Context::alltoall(const ConstTensorView& input, TensorView output,
                                           const AlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, options, runtime_->topology());
  const auto received_splits = entry.received_splits;
  runtime_->perform(std::move(entry), options.stream);
  return *received_splits;
}

void Context::send(const ConstTensorView& tensor, const SendOptions& options) {
  runtime_->perform(send_entry(tensor, options, runtime_->topology()));
}
Handle Context::send_async(const ConstTensorView& tensor, const SendOptions& options) {
  return Handle(runtime_->submit(send_entry(tensor, options, runtime_->topology())).completion);
}
void Context::recv(TensorView tensor, const ReceiveOptions& options) {
  runtime_->perform(receive_entry(tensor, options, runtime_->topology()));
}
Handle Context::recv_async(TensorView tensor, const ReceiveOptions& options) {
  return Handle(runtime_->submit(receive_entry(tensor, options, runtime_->topology())).completion);
}

void Context::barrier(const BarrierOptions& options) { runtime_->perform(barrier_entry(options)); }

std::size_t Context::shard_rows(std::size_t rows) const {
  return rows_of_shard(rows, runtime_->topology());
}

void Context::check_equal(std::span<const NamedTensor> tensors, const CheckEqualOptions& options) {
  horo::check_equal(*runtime_.get(), tensors, options);
}

Counters Context::counters() const { return runtime_->counters(); }

TraceScope Context::phase(std::string_view name) {
  return TraceScope(runtime_.get(), TraceScope::Kind::kPhase, name);
}
TraceScope Context::pause(std::string_view name) {
  return TraceScope(runtime_.get(), TraceScope::Kind::kPause, name);
}

void Context::allreduce_group(std::span<const NamedTensor> tensors,
                              const AllreduceOptions& options) {
  runtime_->perform(allreduce_group_entry(tensors, options), options.stream);
}
Handle Context::allreduce_group_async(std::span<const NamedTensor> tensors,
                                      const AllreduceOptions& options) {
  return submit(*runtime_.get(), allreduce_group_entry(tensors, options), options.stream);
}
void Context::broadcast_group(std::span<const NamedTensor> tensors,
                              const BroadcastOptions& options) {
  runtime_->perform(broadcast_group_entry(tensors, options, runtime_->topology()), options.stream);
}
Handle Context::broadcast_group_async(std::span<const NamedTensor> tensors,
                                      const BroadcastOptions& options) {
  return submit(*runtime_.get(), broadcast_group_entry(tensors, options, runtime_->topology()),
                options.stream);
}

// Sends the number of bytes first, because the other ranks need it for the shape of the contents.
// If options.name is empty, both operations use one automatic name. The second operation thus
// matches on all ranks even if another thread submits operations in between.
void Context::broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options) {
  const std::string name =
      options.name.empty() ? runtime_->automatic_name("broadcast_object") : options.name;
  auto bytes = static_cast<std::int64_t>(object.size());
  broadcast(TensorView(&bytes, {1}), {.name = part_name(name, "bytes"), .root = options.root});
  object.resize(static_cast<std::size_t>(bytes));
  broadcast(TensorView(object.data(), DataType::kUInt8, {object.size()}),
            {.name = name, .root = options.root});
}

// Gathers the numbers of bytes first, because they determine the size of the output and the bounds
// of each rank's part.
std::vector<std::vector<std::byte>> Context::allgather_object(std::span<const std::byte> object,
                                                              const AllgatherOptions& options) {
  const std::string name =
      options.name.empty() ? runtime_->automatic_name("allgather_object") : options.name;
  auto own = static_cast<std::int64_t>(object.size());
  std::vector<std::int64_t> bytes_of(static_cast<std::size_t>(size()));
  allgather(TensorView(&own, {1}), TensorView(bytes_of), {.name = part_name(name, "bytes")});
  std::vector<std::byte> all(
      static_cast<std::size_t>(std::accumulate(bytes_of.begin(), bytes_of.end(), std::int64_t{0})));
  allgather(ConstTensorView(object.data(), DataType::kUInt8, {object.size()}),
            TensorView(all.data(), DataType::kUInt8, {all.size()}), {.name = name});
  std::vector<std::vector<std::byte>> objects;
  for (auto at = all.begin(); const std::int64_t bytes : bytes_of) {
    objects.emplace_back(at, at + bytes);
    at += bytes;
  }
  return objects;
}

// Copies the pointer to the result first, because perform() takes the entry. The result is set
// before the operation completes.
int Context::join() {
  Entry entry = join_entry();
  const std::shared_ptr<int> last_to_join = entry.last_to_join;
  runtime_->perform(std::move(entry));
  return *last_to_join;
}

}  // namespace horo
