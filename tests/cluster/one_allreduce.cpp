// One allreduce of MIB MiB over all ranks, for lab_test.py, which counts the bytes on the wire:
//   one_allreduce MIB
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "horo/horo.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    horo::Context ctx = horo::init();
    std::vector<float> x(std::strtoul(argv[1], nullptr, 10) << 18, 1.0f);
    ctx.allreduce(horo::TensorView(x), {.name = "x", .op = horo::ReduceOp::kSum});
    return x.back() == static_cast<float>(ctx.size()) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "one_allreduce: %s\n", error.what());
    return 1;
  }
}
