// The smallest horo program. Every rank contributes a vector, and all ranks receive the sum.
//
//   hororun -np 4 build/release/bin/allreduce
#include <horo/horo.h>

#include <cstdio>
#include <exception>
#include <vector>

int main() {
  try {
    horo::Context ctx = horo::init();
    std::vector<float> x(1 << 20, static_cast<float>(ctx.rank() + 1));

    ctx.allreduce(horo::TensorView(x), {.name = "x", .op = horo::ReduceOp::kSum});

    if (ctx.rank() == 0)
      std::printf("%d rank%s: x[0] = %g\n", ctx.size(), ctx.size() == 1 ? "" : "s",
                  static_cast<double>(x[0]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce: %s\n", error.what());
    return 1;
  }
}
