// Runs many small allreduces of 4 bytes to 64 KiB and checks each sum. Half of them are exchanges
// of a plan. The others are operations with a reused name, a new name or no name. Fails if the
// resident memory grows in the second half of the run.
// usage: mpirun -n 2 soak_job [OPERATIONS]     (default: 100000)
#include <fmt/core.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "tests/soak/resident_memory.h"

namespace {

constexpr std::array<std::size_t, 7> kBytes = {4, 56, 1000, 4096, 8200, 20000, 65536};
constexpr std::size_t kGrowthKib = 768;

/// A tensor and a plan that contains only this tensor.
struct Tensor {
  Tensor(horo::Context& ctx, std::size_t bytes)
      : name(fmt::format("tensor of {} bytes", bytes)),
        values(bytes / sizeof(float)),
        sync(ctx, std::vector<horo::NamedTensor>{{name, horo::TensorView(values)}},
             {.op = horo::ReduceOp::kSum}) {}
  std::string name;
  std::vector<float> values;
  horo::GradientSync sync;
};

class Soak {
 public:
  explicit Soak(horo::Context& ctx) : ctx_(ctx) {
    for (const std::size_t bytes : kBytes) tensors_.push_back(std::make_unique<Tensor>(ctx, bytes));
  }

  /// Runs one operation, which is the same on every rank. Checks the sum of the last element.
  void run(std::size_t operation) {
    Tensor& tensor = *tensors_[operation / 8 % tensors_.size()];
    const float own = static_cast<float>(operation % 1000 + static_cast<std::size_t>(ctx_.rank()));
    tensor.values.back() = own;
    reduce(tensor, operation);
    const int n = ctx_.size();
    const float expected = static_cast<float>(operation % 1000) * static_cast<float>(n) +
                           static_cast<float>(n * (n - 1) / 2);
    if (tensor.values.back() != expected)
      throw horo::Error(fmt::format("operation {}: the sum is {} and not {}", operation,
                                    tensor.values.back(), expected));
  }

 private:
  void reduce(Tensor& tensor, std::size_t operation) {
    horo::AllreduceOptions options{.op = horo::ReduceOp::kSum};
    switch (operation % 8) {
      case 1:
      case 3:
        options.name = tensor.name;
        break;
      case 5:
        options.name = fmt::format("operation {}", operation);
        break;
      case 7:
        break;  // unnamed
      default:
        tensor.sync.exchange();
        return;
    }
    ctx_.allreduce(horo::TensorView(tensor.values), options);
  }

  horo::Context& ctx_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

// Returns whether the memory of this rank did not grow.
bool run(horo::Context& ctx, std::size_t operations) {
  Soak soak(ctx);
  ResidentMemory memory;
  for (std::size_t i = 0; i < operations; ++i) {
    soak.run(i);
    if (i % 256 == 0) memory.sample(i, operations);
  }
  fmt::print(
      "rank {}: {} operations; resident at most {} KiB in the first half, {} KiB in the "
      "second\n",
      ctx.rank(), operations, memory.first_half_kib(), memory.second_half_kib());
  if (memory.growth_kib() <= kGrowthKib) return true;
  fmt::print(stderr, "soak_job: rank {}: memory grew by {} KiB, more than {} KiB\n", ctx.rank(),
             memory.growth_kib(), kGrowthKib);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    horo::Context ctx = horo::init();
    return run(ctx, argc > 1 ? std::stoul(argv[1]) : 100000) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak_job: {}\n", error.what());
    return 1;
  }
}
