#include "horo/device_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/error.h"
#include "horo/coordinator/allreduce_checks.h"
#include "horo/coordinator/device_operation_queue.h"
#include "horo/device/host/host_device.h"
#include "horo/runtime/device_connection.h"
#include "horo/runtime/operation_entries.h"

namespace horo {
namespace {

using coordinator::DeviceExecutor;
using coordinator::DeviceOperationQueue;

constexpr const char* kWhat = "DeviceOperations";
constexpr std::size_t kLeastBufferBytes = 4096;

// Throws MismatchError on every rank if the options differ.
void agree_on_options(const std::string& own, collectives::Collectives& control,
                      const Topology& topology) {
  const auto all = collectives::gather_all(std::as_bytes(std::span(own)), control, topology);
  const auto text = [&](std::size_t rank) {
    return std::string(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw MismatchError(fmt::format("{}: {} requested {}, {} requested {}", kWhat,
                                      topology.describe(0), text(0),
                                      topology.describe(static_cast<int>(r)), text(r)));
}

// Makes the queue of a DeviceOperations. The constructor checks the options of this rank and throws
// on this rank alone. make() then runs a task in which the ranks gather the errors of all ranks.
// Either all ranks get a queue or all ranks throw the same error.
class Maker {
 public:
  Maker(Runtime& runtime, device::Device& device, const DeviceOperationsOptions& options)
      : runtime_(runtime),
        parts_{.device = device,
               .topology = runtime.topology(),
               .buffer_bytes = options.buffer_bytes.value_or(
                   std::max(kLeastBufferBytes, runtime.settings().bucket_bytes)),
               .chunk_bytes = options.chunk_bytes,
               .waits = std::make_unique<coordinator::PlanWaits>(runtime.transport().wait_policy()),
               .communicator = nullptr,
               .collectives = nullptr,
               .pipeline = nullptr} {
    HORO_CHECK(parts_.buffer_bytes >= kLeastBufferBytes,
               fmt::format("{}: buffer_bytes is {}; it must be {} at least", kWhat,
                           parts_.buffer_bytes, kLeastBufferBytes));
    HORO_CHECK(parts_.chunk_bytes > 0, fmt::format("{}: chunk_bytes is 0", kWhat));
  }

  std::shared_ptr<DeviceOperationQueue> make() {
    coordinator::Entry entry;
    entry.request.kind = coordinator::Kind::kTask;
    entry.request.name = runtime_.automatic_name("device_operations");
    entry.task = [this](collectives::Collectives& control) { agree(control); };
    try {
      runtime_.run_task(std::move(entry));
      if (!job_error_text_.empty()) throw DeviceError(job_error_text_);
      return make_lane();
    } catch (...) {
      if (number_ > 0) runtime_.plan_names().release(kWhat, number_);
      throw;
    }
  }

 private:
  void agree(collectives::Collectives& control) {
    const Topology& topology = runtime_.topology();
    agree_on_options(
        fmt::format("buffer_bytes = {}, chunk_bytes = {} and memory of {}", parts_.buffer_bytes,
                    parts_.chunk_bytes, device::is_host(parts_.device) ? "the stand-in" : "a GPU"),
        control, topology);
    number_ = runtime_.plan_names().agree(kWhat, control);
    std::string own;
    if (number_ > std::numeric_limits<std::uint8_t>::max())
      own =
          fmt::format("{}: {} would exist at the same time; reuse an existing one", kWhat, number_);
    if (topology.size == 1) {
      parts_.collectives = std::make_unique<collectives::LoneCollectives>();
    } else {
      DeviceConnection made = connect_devices(runtime_, plan::numbered_name(kWhat, number_),
                                              parts_.device, *parts_.waits, control);
      parts_.communicator = std::move(made.communicator);
      parts_.collectives = std::move(made.collectives);
      if (own.empty()) own = made.error_text;
      if (own.empty()) own = make_pipeline(control);
    }
    job_error_text_ = first_problem(own, control, topology);
  }

  std::shared_ptr<DeviceOperationQueue> make_lane() {
    return std::make_shared<DeviceOperationQueue>(
        std::move(parts_), static_cast<std::uint8_t>(number_),
        [runtime = &runtime_](std::size_t bytes, std::size_t tensors) {
          runtime->count_collective(bytes, tensors);
        },
        [runtime = &runtime_](const std::string& why) { runtime->end_job(why); },
        runtime_.recorder(), runtime_.topology().set_name());
  }

  // Returns the error of this rank, or an empty text if the pipeline was made.
  std::string make_pipeline(collectives::Collectives& control) {
    try {
      parts_.pipeline =
          horo::make_pipeline(parts_.device, *parts_.collectives, parts_.buffer_bytes, control);
      return {};
    } catch (const DeviceError& error) {
      return fmt::format("{}, for the buffers of {}: {}",
                         runtime_.topology().describe(runtime_.topology().rank), kWhat,
                         error.what());
    }
  }

  Runtime& runtime_;
  DeviceExecutor::Parts parts_;
  int number_ = 0;              // reserved until PlanNames::release(); 0 if there is none yet
  std::string job_error_text_;  // the error of the lowest rank that has one
};

}  // namespace

class DeviceOperations::Impl {
 public:
  Impl(Context& context, device::Device& device, const DeviceOperationsOptions& options)
      : runtime_(context.runtime()), device_(device) {
    device.make_current();
    queue_ = Maker(*runtime_, device, options).make();
  }
  ~Impl() {
    if (runtime_->home().is_elsewhere()) {
      // The destructor of the queue joins the queue's thread. A child process of fork() does not
      // have that thread, so it leaks the queue.
      (void)new std::shared_ptr<DeviceOperationQueue>(std::move(queue_));
      return;
    }
    queue_->close();
    runtime_->plan_names().release(kWhat, queue_->number());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Topology& topology() const { return runtime_->topology(); }

  // prepare() records the event on `stream` before the entry is submitted, because the coordinator
  // may enqueue the operation at once.
  DeviceHandle submit(Entry entry, void* stream) {
    const DeviceHandle handle = prepare(entry, stream);
    runtime_->submit(std::move(entry));
    return handle;
  }
  void perform(Entry entry, void* stream) {
    coordinator::forbid_blocking_in_callbacks();
    const DeviceHandle handle = prepare(entry, stream);
    runtime_->perform(std::move(entry));
    handle.wait();
  }

 private:
  DeviceHandle prepare(Entry& entry, void* stream) {
    runtime_->require_usable();
    check_memory(entry, "input", entry.input);
    check_memory(entry, "output", entry.output);
    HORO_CHECK(stream != nullptr || !device::is_host(device_),
               fmt::format("{} '{}': options.stream is null, and {} has no default stream",
                           coordinator::name_of(entry.request.kind), entry.request.name,
                           device_.describe()));
    entry.request.device_queue = queue_->number();
    entry.on_device = queue_->open(stream);
    return {entry.on_device, entry.completion};
  }
  void check_memory(const Entry& entry, const char* which, const TensorView& tensor) const {
    HORO_CHECK(tensor.count() == 0 || device_.owns(tensor.data()),
               fmt::format("{} '{}': the {} does not lie in memory of {}",
                           coordinator::name_of(entry.request.kind), entry.request.name, which,
                           device_.describe()));
  }

  std::shared_ptr<Runtime> runtime_;
  device::Device& device_;
  std::shared_ptr<DeviceOperationQueue> queue_;
};

namespace {

Entry allreduce_on_device(const TensorView& tensor, const DeviceAllreduceOptions& options) {
  HORO_CHECK(is_elementwise(options.op),
             fmt::format("allreduce '{}': Adasum is for tensors in host memory", options.name));
  check_device_type("allreduce", options.name, tensor.type());
  return allreduce_entry(tensor, {options.name, options.op, options.prescale, options.postscale});
}

Entry reduce_scatter_on_device(const ConstTensorView& input, const TensorView& output,
                               const DeviceReduceScatterOptions& options,
                               const Topology& topology) {
  check_device_type("reduce_scatter", options.name, input.type());
  return reduce_scatter_entry(input, output, {.name = options.name, .op = options.op}, topology);
}

}  // namespace

DeviceOperations::DeviceOperations(Context& context, device::Device& device,
                                   const DeviceOperationsOptions& options) {
  coordinator::forbid_blocking_in_callbacks();
  impl_ = std::make_unique<Impl>(context, device, options);
}
DeviceOperations::DeviceOperations(DeviceOperations&&) noexcept = default;
DeviceOperations& DeviceOperations::operator=(DeviceOperations&&) noexcept = default;
DeviceOperations::~DeviceOperations() = default;

void DeviceOperations::allreduce(TensorView tensor, const DeviceAllreduceOptions& options) {
  impl_->perform(allreduce_on_device(tensor, options), options.stream);
}
DeviceHandle DeviceOperations::allreduce_async(TensorView tensor,
                                               const DeviceAllreduceOptions& options) {
  return impl_->submit(allreduce_on_device(tensor, options), options.stream);
}

void DeviceOperations::broadcast(TensorView tensor, const DeviceBroadcastOptions& options) {
  impl_->perform(broadcast_entry(tensor, {options.name, options.root}, impl_->topology()),
                 options.stream);
}
DeviceHandle DeviceOperations::broadcast_async(TensorView tensor,
                                               const DeviceBroadcastOptions& options) {
  return impl_->submit(broadcast_entry(tensor, {options.name, options.root}, impl_->topology()),
                       options.stream);
}

void DeviceOperations::allgather(const ConstTensorView& input, TensorView output,
                                 const DeviceAllgatherOptions& options) {
  impl_->perform(allgather_entry(input, output, {options.name}), options.stream);
}
DeviceHandle DeviceOperations::allgather_async(const ConstTensorView& input, TensorView output,
                                               const DeviceAllgatherOptions& options) {
  return impl_->submit(allgather_entry(input, output, {options.name}), options.stream);
}

void DeviceOperations::reduce_scatter(const ConstTensorView& input, TensorView output,
                                      const DeviceReduceScatterOptions& options) {
  impl_->perform(reduce_scatter_on_device(input, output, options, impl_->topology()),
                 options.stream);
}
DeviceHandle DeviceOperations::reduce_scatter_async(const ConstTensorView& input, TensorView output,
                                                    const DeviceReduceScatterOptions& options) {
  return impl_->submit(reduce_scatter_on_device(input, output, options, impl_->topology()),
                       options.stream);
}

std::vector<std::size_t> DeviceOperations::alltoall(const ConstTensorView& input, TensorView output,
                                                    const DeviceAlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, {options.name, options.splits}, impl_->topology());
  const auto received_splits = entry.received_splits;
  impl_->perform(std::move(entry), options.stream);
  return *received_splits;
}
DeviceAlltoallHandle DeviceOperations::alltoall_async(const ConstTensorView& input,
                                                      TensorView output,
                                                      const DeviceAlltoallOptions& options) {
  Entry entry = alltoall_entry(input, output, {options.name, options.splits}, impl_->topology());
  const auto received_splits = entry.received_splits;
  return {impl_->submit(std::move(entry), options.stream), received_splits};
}

}  // namespace horo
