// Programs that compute on the CPU do not map NVIDIA's libraries, although horo was built with
// them.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

#include "ops/backend/cuda/convolution.h"
#include "ops/backend/cuda/matmul.h"
#include "ops/nn/models/models.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

TEST(LazyLoading, LoadsLibrariesOnFirstUse) {
  (void)make_mlp()->forward(varied_tensor({2, 1, 28, 28}, 1), {});
  for (const char* library : {"libcudnn", "libcublas", "libnccl", "libcuda.so"})
    EXPECT_THAT(mapped_files(), Not(HasSubstr(library)));
  const cuda::Matmul matmul({2, 3, 4});
  EXPECT_THAT(mapped_files(), HasSubstr("libcublasLt"));
  EXPECT_THAT(mapped_files(), Not(HasSubstr("libcudnn")));
  const cuda::ConvolutionKernel convolution({{1, 8, 4, 4}, 8, {3, 1, 1}, false});
  EXPECT_THAT(mapped_files(), HasSubstr("libcudnn"));
}

}  // namespace
}  // namespace horo::ops
