#include "horo/open_gpu.h"

#include <exception>

#include "collectives/device/choose_gpu.h"
#include "horo/base/device/gpu.h"
#include "horo/base/error.h"
#include "horo/runtime.h"

namespace horo {

std::unique_ptr<device::Device> open_gpu(Context& context) {
  const std::shared_ptr<Runtime> runtime = context.runtime();
  int gpu = 0;
  std::exception_ptr refusal;  // all ranks have it, so the job may go on
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = runtime->automatic_name("open_gpu");
  entry.task = [&](collectives::Collectives& control) {
    try {
      gpu = collectives::choose_gpu(control, runtime->topology(), device::gpu_addresses,
                                    runtime->settings().gpu_oversubscribe);
    } catch (const DeviceError&) {
      refusal = std::current_exception();
    }
  };
  runtime->run_task(std::move(entry));
  if (refusal != nullptr && device::is_built_with_gpus()) std::rethrow_exception(refusal);
  return device::open_gpu(gpu);
}

}  // namespace horo
