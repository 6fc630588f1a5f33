#include "horo/context.h"

#include <fmt/format.h>

#include <exception>

#include "horo/base/log.h"
#include "horo/equality_check.h"
#include "horo/operation_entries.h"
#include "horo/runtime.h"

namespace horo {

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

// The other ranks would wait for this one's shutdown() for ever.
void Context::end_job_in_callback() {
  if (runtime_->is_closed()) return;
  const std::string text = fmt::format(
      "{} destroyed its Context in a completion callback, where shutdown() cannot wait for the "
      "other ranks: destroy it on a thread of the program",
      runtime_->topology().describe(rank()));
  log_error("{}", text);
  runtime_->end_job(text);
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
  return Handle(runtime_->submit(allreduce_entry(tensor, options)));
}
Handle Context::allreduce_async(const ConstTensorView& input, TensorView output,
                                const AllreduceOptions& options) {
  return Handle(runtime_->submit(allreduce_entry(input, output, options)));
}
Handle Context::broadcast_async(TensorView tensor, const BroadcastOptions& options) {
  return Handle(runtime_->submit(broadcast_entry(tensor, options, runtime_->topology())));
}
Handle Context::allgather_async(const ConstTensorView& input, TensorView output,
                                const AllgatherOptions& options) {
  return Handle(runtime_->submit(allgather_entry(input, output, options)));
}
Handle Context::reduce_scatter_async(const ConstTensorView& input, TensorView output,
                                     const ReduceScatterOptions& options) {
  return Handle(
      runtime_->submit(reduce_scatter_entry(input, output, options, runtime_->topology())));
}
AlltoallHandle Context::alltoall_async(const ConstTensorView& input, TensorView output,
                                       const AlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, options, runtime_->topology());
  const auto received_splits = entry.received_splits;
  return {Handle(runtime_->submit(std::move(entry))), received_splits};
}

void Context::allreduce(TensorView tensor, const AllreduceOptions& options) {
  runtime_->perform(allreduce_entry(tensor, options));
}
void Context::allreduce(const ConstTensorView& input, TensorView output,
                        const AllreduceOptions& options) {
  runtime_->perform(allreduce_entry(input, output, options));
}
void Context::broadcast(TensorView tensor, const BroadcastOptions& options) {
  runtime_->perform(broadcast_entry(tensor, options, runtime_->topology()));
}
void Context::allgather(const ConstTensorView& input, TensorView output,
                        const AllgatherOptions& options) {
  runtime_->perform(allgather_entry(input, output, options));
}
void Context::reduce_scatter(const ConstTensorView& input, TensorView output,
                             const ReduceScatterOptions& options) {
  runtime_->perform(reduce_scatter_entry(input, output, options, runtime_->topology()));
}
std::vector<std::size_t> Context::alltoall(const ConstTensorView& input, TensorView output,
                                           const AlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, options, runtime_->topology());
  const auto received_splits = entry.received_splits;
  runtime_->perform(std::move(entry));
  return *received_splits;
}

void Context::barrier(const BarrierOptions& options) { runtime_->perform(barrier_entry(options)); }

std::size_t Context::shard_rows(std::size_t rows) const {
  return rows_of_shard(rows, runtime_->topology());
}

void Context::check_equal(std::span<const NamedTensor> tensors, const CheckEqualOptions& options) {
  horo::check_equal(*runtime_.get(), tensors, options);
}

Counters Context::counters() const { return runtime_->counters(); }

Phase Context::phase(std::string_view name) {
  return Phase(runtime_.get(), Phase::Kind::kPhase, name);
}
Phase Context::pause(std::string_view name) {
  return Phase(runtime_.get(), Phase::Kind::kPause, name);
}

}  // namespace horo
