// A user's program in C++17. It needs only the C interface of horo.
#include <horo/horo_cxx17.h>

#include <cstdio>
#include <exception>
#include <vector>

int main() try {
  horo::cxx17::Context context = horo::cxx17::init();
  std::vector<float> values(1000, static_cast<float>(context.rank() + 1));
  context.allreduce(values, {"values", horo::cxx17::ReduceOp::kSum});
  const auto expected = static_cast<float>(context.size() * (context.size() + 1) / 2);
  for (const float value : values) {
    if (value == expected) continue;
    std::fprintf(stderr, "rank %d: %g in place of %g\n", context.rank(), static_cast<double>(value),
                 static_cast<double>(expected));
    return 1;
  }
  std::printf("rank %d of %d: %g\n", context.rank(), context.size(),
              static_cast<double>(values[0]));
  context.shutdown();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "sum_ranks_cxx17: %s\n", error.what());
  return 1;
}
