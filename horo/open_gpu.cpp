#include "horo/open_gpu.h"

#include <exception>

#include "collectives/device/choose_gpu.h"
#include "collectives/nccl/connect_gpus.h"
#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "horo/runtime/runtime.h"

namespace horo {

// The ranks choose their GPUs in a task, because only a task may use the collectives of the
// coordinator. The task may refer to this stack frame, because run_task() waits for the task.
std::shared_ptr<device::Device> open_gpu(Context& context) {
  const std::shared_ptr<Runtime> runtime = context.runtime();
  int gpu = 0;
  // All ranks get the same DeviceError, so the job may continue. The DeviceError must not leave the
  // task: an error other than InvalidArgument and MismatchError that leaves a task ends the job.
  std::exception_ptr error_text;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = runtime->automatic_name("open_gpu");
  entry.task = [&](collectives::Collectives& control) {
    try {
      gpu = collectives::choose_gpu(control, runtime->topology(), device::gpu_addresses,
                                    runtime->settings().gpu_oversubscribe);
    } catch (const DeviceError&) {
      error_text = std::current_exception();
    }
  };
  runtime->run_task(std::move(entry));
  // In a build without GPUs, device::open_gpu() throws a more useful error, which explains how to
  // build horo with GPUs.
  if (error_text != nullptr && device::is_built_with_gpus()) std::rethrow_exception(error_text);
  return device::open_gpu(gpu);
}

device::Memory allocate_for_exchange(device::Device& device, std::size_t bytes) {
  return collectives::allocate_exchange_memory(device, bytes);
}

}  // namespace horo
