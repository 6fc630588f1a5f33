#include "horo/adapters/torch/sync_batch_norm.h"

#include <gmock/gmock.h>

#include "tests/torch/ranks_with_torch.h"

namespace horo::libtorch {
namespace {

using ::testing::HasSubstr;
using ::torch::nn::BatchNorm2d;
using ::torch::nn::BatchNormOptions;

constexpr std::int64_t kFeatures = 3;

/// [samples, 3, 2, 5]: samples from `first` on, with another mean and deviation per feature.
at::Tensor images(std::int64_t first, std::int64_t count) {
  const at::Tensor noise =
      (::torch::arange(first * 30, (first + count) * 30).to(at::kDouble) * 1.3).sin();
  const at::Tensor scale = ::torch::tensor({1.0, 20.0, 0.1}).view({1, kFeatures, 1, 1});
  return (noise.view({count, kFeatures, 2, 5}) * scale + scale * 3).to(at::kFloat);
}
at::Tensor output_gradient(std::int64_t first, std::int64_t count) {
  return (::torch::arange(first * 30, (first + count) * 30).to(at::kFloat) * 0.9)
      .cos()
      .view({count, kFeatures, 2, 5});
}

/// Rank r has r * r samples of each step, so rank 0 has none, unless it is alone.
struct Share {
  explicit Share(const Context& ctx) {
    for (int rank = 0; rank < ctx.size(); ++rank) {
      const std::int64_t mine = ctx.size() == 1 ? 4 : rank * rank;
      if (rank == ctx.rank()) first = all, count = mine;
      all += mine;
    }
  }
  std::int64_t first = 0, count = 0, all = 0;
};

void set_weights(::torch::nn::NormImplBase<1, SyncBatchNormImpl, BatchNormOptions>& norm) {
  const ::torch::NoGradGuard no_graph;
  norm.weight.copy_(::torch::tensor({1.0, -2.0, 0.5}));
  norm.bias.copy_(::torch::tensor({0.0, 1.0, 3.0}));
}

void compare_with_whole_batch(Context& ctx, const BatchNormOptions& options, std::string name) {
  SyncBatchNorm norm(BatchNormExchange{ctx, std::move(name)}, options);
  BatchNorm2d whole(options);
  if (options.affine()) {
    const ::torch::NoGradGuard no_graph;
    set_weights(*norm);
    whole->weight.copy_(norm->weight);
    whole->bias.copy_(norm->bias);
  }
  const Share share(ctx);
  for (int step = 0; step < 3; ++step) {
    norm->zero_grad();
    whole->zero_grad();
    const std::int64_t first = step * share.all;
    const at::Tensor input = images(first + share.first, share.count).requires_grad_();
    const at::Tensor whole_input = images(first, share.all).requires_grad_();
    const at::Tensor output = norm(input), whole_output = whole(whole_input);
    output.backward(output_gradient(first + share.first, share.count));
    whole_output.backward(output_gradient(first, share.all));
    const auto mine = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, share.first, share.count);
    };
    expect_close(output, mine(whole_output), "output", 1e-4);
    expect_close(input.grad(), mine(whole_input.grad()), "gradient of the input", 1e-4);
    if (options.affine()) {
      const at::Tensor sums = ::torch::cat({norm->weight.grad(), norm->bias.grad()});
      ctx.allreduce(view_of(sums), {.op = ReduceOp::kSum});
      expect_close(sums, ::torch::cat({whole->weight.grad(), whole->bias.grad()}),
                   "gradients of weight and bias", 1e-4);
    }
    if (options.track_running_stats()) {
      expect_close(norm->running_mean, whole->running_mean, "running mean", 1e-4);
      expect_close(norm->running_var, whole->running_var, "running variance", 1e-4);
      EXPECT_EQ(norm->num_batches_tracked.item<int>(), step + 1);
      expect_same_on_all_ranks(ctx, {norm->running_mean, norm->running_var});
    }
  }
  norm->eval();
  whole->eval();
  expect_close(norm(images(7, 2)), whole(images(7, 2)), "evaluation", 1e-4);
}

TEST(SyncBatchNorm, EqualsBatchNormOfTheWholeBatch) {
  for_numbers_of_ranks(
      [](Context& ctx) { compare_with_whole_batch(ctx, BatchNormOptions(kFeatures), "norm"); });
}

TEST(SyncBatchNorm, SupportsTheOptionsOfBatchNorm) {
  on_ranks(3, [](Context& ctx) {
    compare_with_whole_batch(ctx, BatchNormOptions(kFeatures).momentum(c10::nullopt).eps(0.1), "");
    compare_with_whole_batch(ctx, BatchNormOptions(kFeatures).affine(false), "plain");
  });
}

TEST(SyncBatchNorm, NormalizesVectorsAnd16BitTypes) {
  on_ranks(2, [](Context& ctx) {
    SyncBatchNorm norm(BatchNormExchange{ctx, "norm"}, 2);
    // Feature 0 is 0, 1, 2, 3 over both ranks; its mean is 1.5 and its variance 1.25.
    const at::Tensor input =
        ::torch::tensor({{0.0, 5.0}, {1.0, 5.0}}) + ::torch::tensor({2.0 * ctx.rank(), 0.0});
    const at::Tensor expected = (input - ::torch::tensor({1.5, 5.0})) / std::sqrt(1.25);
    expect_close(norm(input), expected, "float", 1e-4);
    const at::Tensor output = norm(input.to(at::kBFloat16));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    expect_close(output, expected, "bfloat16", 1e-2);
  });
}

TEST(SyncBatchNorm, TrainsInADistributedModule) {
  for_numbers_of_ranks([](Context& ctx) {
    const auto make = [&](auto norm) {
      return ::torch::nn::Sequential(::torch::nn::Linear(kInputs, kHidden), norm,
                                     ::torch::nn::ReLU(), ::torch::nn::Linear(kHidden, kClasses));
    };
    auto net = make(SyncBatchNorm(BatchNormExchange{ctx, "norm"}, kHidden));
    auto whole = make(::torch::nn::BatchNorm1d(kHidden));
    DistributedModule distributed(ctx, *net);
    {
      const ::torch::NoGradGuard no_graph;
      const auto values = net->named_parameters();
      for (auto& item : whole->named_parameters()) item.value().copy_(values[item.key()]);
    }
    const auto loss = [](auto& model, std::int64_t first, std::int64_t count) {
      return ::torch::nn::functional::cross_entropy(model->forward(inputs_of(first, count)),
                                                    targets_of(first, count));
    };
    loss(net, ctx.rank() * 2, 2).backward();
    distributed.wait();
    loss(whole, 0, ctx.size() * 2).backward();
    expect_equal_gradients(*net, *whole, 1e-4);
  });
}

TEST(SyncBatchNorm, NamesAWrongShape) {
  on_ranks(1, [](Context& ctx) {
    SyncBatchNorm norm(BatchNormExchange{ctx, "norm"}, 4);
    EXPECT_THAT(error_of([&] {
                  norm(::torch::zeros({2, 3}));
                }),
                HasSubstr("SyncBatchNorm of 4 features needs a floating point input [samples, 4, "
                          "...]; its shape is [2, 3]"));
  });
}

}  // namespace
}  // namespace horo::libtorch
