// Makes a whole program of tests need a GPU: linked into each one labelled gpu.
#include "tests/support/gpu_test.h"

namespace horo {
namespace {

class NeedsGpu : public testing::Environment {
  void SetUp() override { HORO_REQUIRE_GPU(); }
};

[[maybe_unused]] const auto* const kNeedsGpu =
    testing::AddGlobalTestEnvironment(new NeedsGpu);  // GoogleTest's from now on

}  // namespace
}  // namespace horo
