#include "horo/open_gpu.h"

#include <exception>

#include "collectives/device/choose_gpu.h"
#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "horo/runtime/runtime.h"

namespace horo {

// The ranks agree in a task, because a task may use the collectives of the job. It refers to this
// stack frame; run_task() waits for it.
std::unique_ptr<device::Device> open_gpu(Context& context) {
  const std::shared_ptr<Runtime> runtime = context.runtime();
  int gpu = 0;
  // All ranks get the same DeviceError, so the job may continue. It must not leave the task: there,
  // an error that is neither InvalidArgument nor MismatchError ends the job.
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
  // In a build without GPUs, device::open_gpu() throws the better error: how to build with them.
  if (error_text != nullptr && device::is_built_with_gpus()) std::rethrow_exception(error_text);
  return device::open_gpu(gpu);
}

}  // namespace horo
