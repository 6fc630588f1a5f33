#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <utility>

#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

// Returns "MoveTiles<...>" for "... [with Kernel = ns::MoveTiles<...>; Table = ...]".
std::string kernel_name(const std::string& type) {
  const std::size_t begin = type.find("Kernel = ") + 9, end = type.find("; Table", begin);
  std::string name = type.substr(begin, end - begin);
  return name.substr(name.rfind("::", name.find('<')) + 2);
}

}  // namespace

cudaError_t launch_kernel(const char* type, dim3 blocks, dim3 threads, cudaStream_t stream,
                          std::function<void()> run) {
  enter("cudaLaunchKernel");
  std::string name = "kernel " + kernel_name(type);
  if (threads.x == 0 || threads.x > 1024 || blocks.x == 0 || blocks.x > 2147483647)
    violation(name, checked("cudaLaunchKernel", stream).name, "the size of the grid is invalid");
  submit("cudaLaunchKernel", stream,
         {std::move(name), {}, [run = std::move(run)](const Actor&, const Moment&) { run(); }});
  return cudaSuccess;
}

}  // namespace horo::fakes
