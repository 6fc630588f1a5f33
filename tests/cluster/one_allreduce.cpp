// Runs one allreduce of MIB MiB over all ranks. lab_test.py counts the bytes on the wire.
//   one_allreduce MEMORY MIB
// MEMORY is "ordinary", or "arena" for Context::allocate.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <vector>

#include "horo/horo.h"

namespace {

bool run(bool in_arena, std::size_t mib) {
  horo::Context ctx = horo::init();
  const horo::Arena arena = ctx.allocate(in_arena ? mib << 20 : 1);
  std::pmr::vector<float> x(mib << 18, 1.0f,
                            in_arena ? arena.resource() : std::pmr::get_default_resource());
  const std::vector<horo::NamedTensor> tensors = {{"x", horo::TensorView(x)}};
  horo::GradientSync sync(ctx, tensors, {.op = horo::ReduceOp::kSum});
  sync.exchange();
  const auto expected = static_cast<float>(ctx.size());
  return std::ranges::all_of(x, [=](float y) { return y == expected; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return run(std::strcmp(argv[1], "arena") == 0, std::strtoul(argv[2], nullptr, 10)) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "one_allreduce: %s\n", error.what());
    return 1;
  }
}
