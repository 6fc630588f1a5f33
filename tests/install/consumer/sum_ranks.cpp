// A user's program. It needs only the installed headers and libraries.
#include <horo/horo.h>

#include <cstdio>
#include <vector>

int main() {
  horo::Context context = horo::init();
  std::vector<float> values(1000, static_cast<float>(context.rank() + 1));
  context.allreduce(horo::TensorView(values), {.name = "values", .op = horo::ReduceOp::kSum});
  const auto expected = static_cast<float>(context.size() * (context.size() + 1) / 2);
  for (float value : values) {
    if (value == expected) continue;
    std::fprintf(stderr, "rank %d: %g in place of %g\n", context.rank(), value, expected);
    return 1;
  }
  std::printf("rank %d of %d: %g\n", context.rank(), context.size(), values[0]);
  context.shutdown();
  return 0;
}
