// Makes a whole test program require a GPU. Linked into each program with the label gpu.
#include "tests/support/gpu_test.h"

namespace horo {
namespace {

class NeedsGpu : public testing::Environment {
  void SetUp() override { HORO_REQUIRE_GPU(); }
};

[[maybe_unused]] const auto* const kNeedsGpu =
    testing::AddGlobalTestEnvironment(new NeedsGpu);  // GoogleTest takes ownership

}  // namespace
}  // namespace horo
