#include "horo/runtime/device_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/error.h"
#include "horo/coordinator/allreduce_checks.h"
#include "horo/device/host/host_device.h"
#include "horo/runtime/device_connection.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

using coordinator::DeviceExecutor;
using coordinator::DeviceOperationQueue;
using coordinator::Entry;
using coordinator::Kind;

constexpr std::size_t kLeastBufferBytes = 4096;
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

std::string describe(const Entry& entry) {
  return fmt::format("{} '{}'", coordinator::name_of(entry.request.kind), entry.request.name);
}

// Calls `visit` with every tensor of the entry. Omits the tensors that the operation does not use
// and empty tensors that belong to no memory.
template <typename Visit>
void visit_tensors(const Entry& entry, const Visit& visit) {
  const auto visit_one = [&](const ConstTensorView& tensor) {
    if (tensor.data() != nullptr || tensor.device() != nullptr) visit(tensor);
  };
  visit_one(entry.initial);
  visit_one(entry.input);
  visit_one(entry.output);
  for (const TensorView& member : entry.members) visit_one(member);
}

// Returns the device of all tensors of the entry, or null for host memory.
device::Device* device_of(const Entry& entry) {
  const ConstTensorView* first = nullptr;
  visit_tensors(entry, [&](const ConstTensorView& tensor) {
    if (first == nullptr) first = &tensor;
    HORO_CHECK(tensor.device() == first->device(),
               fmt::format("{}: the tensors must be in one memory, but one is in {} and one in {}",
                           describe(entry), describe_memory(first->device()),
                           describe_memory(tensor.device())));
  });
  return first == nullptr ? nullptr : first->device();
}

void check_for_device(const Entry& entry, const device::Device& device, const void* stream) {
  const coordinator::Request& request = entry.request;
  if (request.kind == Kind::kAllreduce || request.kind == Kind::kReduceScatter) {
    HORO_CHECK(
        is_elementwise(request.op),
        fmt::format("{}: Adasum requires tensors in host memory; use ReduceOp::kAverage or kSum",
                    describe(entry)));
    if (request.members.empty())
      check_device_type(coordinator::name_of(request.kind), request.name, request.type);
    for (const auto& member : request.members)
      check_device_type(coordinator::name_of(request.kind), member.name, member.type);
  }
  HORO_CHECK(request.kind != Kind::kReduceScatter || request.scale.are_one(),
             fmt::format("{}: prescale and postscale must be 1 for tensors in device memory",
                         describe(entry)));
  visit_tensors(entry, [&](const ConstTensorView& tensor) {
    HORO_CHECK(tensor.count() == 0 || device.owns(tensor.data()),
               fmt::format("{}: a tensor does not lie in memory of {}", describe(entry),
                           device.describe()));
  });
  check_stream(describe(entry), device, stream);
}

// Connects the devices of all ranks. Either all ranks get an executor or all ranks get the same
// error.
DeviceOperationQueue::Connection connect(Runtime& runtime, device::Device& device,
                                         std::uint8_t number, coordinator::PlanWaits& waits,
                                         collectives::Collectives& control) {
  const Topology& topology = runtime.topology();
  DeviceExecutor::Parts parts{
      .device = device,
      .topology = topology,
      .buffer_bytes = std::max(kLeastBufferBytes, runtime.settings().bucket_bytes),
      .chunk_bytes = kChunkBytes,
      .communicator = nullptr,
      .collectives = nullptr,
      .pipeline = nullptr};
  if (!collectives::all_equal(device::is_host(device) ? 0 : 1, control))
    return {nullptr, "some ranks use tensors of a GPU and others tensors of its host stand-in"};
  std::string own;
  try {
    if (topology.size == 1) {
      parts.collectives = std::make_unique<collectives::LoneCollectives>();
    } else {
      collectives::DeviceConnection made =
          connect_devices(runtime, fmt::format("operations on device {}", number), device, waits,
                          runtime.settings().nccl_max_ctas, control);
      parts.communicator = std::move(made.communicator);
      parts.collectives = std::move(made.collectives);
      own = made.error_text;
      if (own.empty())
        parts.pipeline = collectives::ChunkPipeline::make(device, *parts.collectives,
                                                          parts.buffer_bytes, {}, control);
    }
    DeviceOperationQueue::Connection connection;
    if (own.empty()) connection.executor = std::make_unique<DeviceExecutor>(std::move(parts));
    connection.error_text = collectives::first_problem(own, control, topology);
    if (!connection.error_text.empty()) connection.executor = nullptr;
    return connection;
  } catch (const DeviceError& error) {
    own = fmt::format("{}, for operations on tensors in device memory: {}",
                      topology.describe(topology.rank), error.what());
  }
  return {nullptr, collectives::first_problem(own, control, topology)};
}

}  // namespace

void DeviceQueues::prepare(Entry& entry, void* stream) {
  device::Device* const device = device_of(entry);
  if (device == nullptr) {
    HORO_CHECK(stream == nullptr,
               fmt::format("{}: options.stream is set, but the tensors are in host memory; make "
                           "views of device memory with TensorView(data, shape, device)",
                           describe(entry)));
    return;
  }
  runtime_.require_usable();
  check_for_device(entry, *device, stream);
  const std::shared_ptr<DeviceOperationQueue> queue = queue_of(*device);
  if (queue == nullptr) return;  // the coordinator rejects the entry with ShutdownError
  entry.request.device_queue = queue->number();
  entry.on_device = queue->open(stream);
}

// A queue keeps its device alive, because the program may destroy its own reference to the device
// before the Context.
std::shared_ptr<DeviceOperationQueue> DeviceQueues::queue_of(device::Device& device) {
  const std::scoped_lock lock(mutex_);
  if (is_closed_) return nullptr;
  const auto known =
      std::ranges::find(queues_, &device, [](const auto& queue) { return &queue->device(); });
  if (known != queues_.end()) return *known;
  const std::shared_ptr<device::Device> shared = device.share();
  HORO_CHECK(queues_.size() < std::numeric_limits<std::uint8_t>::max(),
             fmt::format("a Context can use at most {} devices", queues_.size()));
  const auto number = static_cast<std::uint8_t>(queues_.size() + 1);
  queues_.push_back(std::make_shared<DeviceOperationQueue>(
      shared, number, runtime_.topology(),
      std::make_unique<coordinator::PlanWaits>(runtime_.transport().wait_policy()),
      [this, number, &device](coordinator::PlanWaits& waits, collectives::Collectives& control) {
        return connect(runtime_, device, number, waits, control);
      },
      [this](std::size_t bytes, std::size_t tensors) { runtime_.count_collective(bytes, tensors); },
      [this](const std::string& why) { runtime_.end_job(why); }, runtime_.recorder()));
  return queues_.back();
}

// Closes the queues without the lock, because close() waits for the device.
void DeviceQueues::close() {
  std::vector<std::shared_ptr<DeviceOperationQueue>> queues;
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    queues = std::exchange(queues_, {});
  }
  for (const auto& queue : queues) queue->close();
}

void DeviceQueues::leak() noexcept {
  (void)new std::vector<std::shared_ptr<DeviceOperationQueue>>(std::move(queues_));
}

}  // namespace horo
