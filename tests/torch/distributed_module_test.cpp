#include "horo/adapters/torch/distributed_module.h"

#include <gmock/gmock.h>

#include "tests/torch/ranks_with_torch.h"

namespace horo::libtorch {
namespace {

using ::testing::HasSubstr;

TEST(DistributedModule, StartsWithTheValuesOfRank0) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;  // random, so that it differs between the ranks
    const at::Tensor before = net->up->weight.detach().clone();
    const DistributedModule distributed(ctx, *net);
    expect_same_on_all_ranks(ctx, net->parameters());
    expect_same_on_all_ranks(ctx, net->buffers());
    if (ctx.rank() == 0) {
      EXPECT_TRUE(::torch::equal(net->up->weight, before));
    } else {
      EXPECT_FALSE(::torch::equal(net->up->weight, before));
    }
  });
}

TEST(DistributedModule, GradientsEqualThoseOfTheWholeBatch) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net, {.gradients = {.bucket_bytes = 100}});
    Net whole = copy_of(net);
    ::torch::optim::SGD optimizer(net->parameters(), ::torch::optim::SGDOptions(0.5).momentum(0.9)),
        optimizer_of_whole(whole->parameters(), ::torch::optim::SGDOptions(0.5).momentum(0.9));
    for (int step = 0; step < 6; ++step) {
      for (const at::Tensor& parameter : net->parameters()) {
        if (step % 3 == 2)
          parameter.mutable_grad().zero_();
        else
          parameter.mutable_grad().reset();
      }
      optimizer_of_whole.zero_grad();
      loss_of_rank(net, ctx, step).backward();
      distributed.wait();
      loss_of_all(whole, ctx, step).backward();
      expect_equal_gradients(*net, *whole);
      optimizer.step();
      optimizer_of_whole.step();
    }
    expect_same_on_all_ranks(ctx, net->parameters());
  });
}

TEST(DistributedModule, ExchangesGradientsInTheirOwnMemory) {
  on_ranks(2, [](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    const void* address = nullptr;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      loss_of_rank(net, ctx, step).backward();
      distributed.wait();
      const void* const now = net->up->weight.grad().data_ptr();
      EXPECT_TRUE(address == nullptr || address == now);
      address = now;
    }
    for (std::size_t i = 0; i < distributed.gradient_sync().bucket_count(); ++i)
      EXPECT_TRUE(distributed.gradient_sync().is_in_place(i));
  });
}

TEST(DistributedModule, ClipsByTheNormOfTheAveragedGradients) {
  constexpr double kNorm = 0.05;
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net, {.gradients = {.clip_norm = kNorm}});
    Net whole = copy_of(net);
    loss_of_rank(net, ctx, 0).backward();
    distributed.wait();
    loss_of_all(whole, ctx, 0).backward();
    const double norm = ::torch::nn::utils::clip_grad_norm_(whole->parameters(), kNorm);
    EXPECT_NEAR(distributed.report().norm, norm, 1e-5);
    EXPECT_EQ(distributed.report().was_clipped, norm > kNorm);
    expect_equal_gradients(*net, *whole, 1e-4);
  });
}

TEST(DistributedModule, AveragesGradientsOf16BitTypes) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for_numbers_of_ranks([type](Context& ctx) {
      ::torch::nn::Linear layer(kInputs, kClasses);
      layer->to(type);
      DistributedModule distributed(ctx, *layer);
      // The gradient of a sum over the outputs is the sum of the inputs.
      const at::Tensor input = ::torch::full({2, kInputs}, 1 + ctx.rank()).to(type);
      // Not every version of libtorch multiplies matrices of half on a CPU.
      (layer->weight * input.sum(0)).sum().add(layer->bias.sum()).backward();
      distributed.wait();
      EXPECT_EQ(layer->weight.grad().scalar_type(), type);
      expect_close(layer->weight.grad(),
                   ::torch::full({kClasses, kInputs}, 2 * (1 + (ctx.size() - 1) / 2.0)).to(type),
                   "weight", 1e-2);
    });
}

TEST(DistributedModule, KeepsTheOrderOfDimensionsInMemory) {
  for_numbers_of_ranks([](Context& ctx) {
    ::torch::nn::Conv2d conv(::torch::nn::Conv2dOptions(3, 4, 2));
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
    DistributedModule distributed(ctx, *conv);
    const auto gradient_of_rank = [&](int rank) {
      return ::torch::arange(4 * 3 * 2 * 2).view({4, 3, 2, 2}).to(at::kFloat) * (rank + 1);
    };
    ((conv->weight * gradient_of_rank(ctx.rank())).sum() + conv->bias.sum()).backward();
    distributed.wait();
    EXPECT_EQ(conv->weight.grad().strides(), conv->weight.strides());
    expect_close(conv->weight.grad(), gradient_of_rank(0) * ((ctx.size() + 1) / 2.0), "weight");
  });
}

TEST(DistributedModule, ExchangesASharedParameterOnce) {
  on_ranks(3, [](Context& ctx) {
    ::torch::nn::Module module("tied");
    const at::Tensor weight = ::torch::ones({kInputs}).requires_grad_();
    module.register_parameter("first", weight);
    module.register_parameter("second", weight);
    DistributedModule distributed(ctx, module);
    const at::Tensor shared = module.parameters()[0];
    (shared * (ctx.rank() + 1) + shared * shared).sum().backward();
    distributed.wait();
    expect_close(shared.grad(), ::torch::full({kInputs}, 2.0 + 2.0), "shared");
  });
}

TEST(DistributedModule, LeavesFrozenParametersAlone) {
  on_ranks(2, [](Context& ctx) {
    Net net;
    net->up->weight.set_requires_grad(false);
    DistributedModule distributed(ctx, *net);
    expect_same_on_all_ranks(ctx, net->parameters());
    loss_of_rank(net, ctx, 0).backward();
    distributed.wait();
    EXPECT_FALSE(net->up->weight.grad().defined());
    EXPECT_TRUE(net->up->bias.grad().defined());
  });
}

TEST(DistributedModule, CopiesBuffersOfRank0OnRequest) {
  on_ranks(3, [](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    net->offset.fill_(ctx.rank() + 4);
    distributed.broadcast_buffers();
    expect_close(net->offset, ::torch::full({kHidden}, 4), "offset");
  });
}

TEST(DistributedModule, RemovesItsHooksAndGradients) {
  on_ranks(2, [](Context& ctx) {
    Net net;
    {
      DistributedModule distributed(ctx, *net);
      loss_of_rank(net, ctx, 0).backward();
      distributed.wait();
    }
    EXPECT_FALSE(net->up->weight.grad().defined());
    Net alone = copy_of(net);
    loss_of_rank(net, ctx, 1).backward();
    loss_of_rank(alone, ctx, 1).backward();
    expect_equal_gradients(*net, *alone);
    DistributedModule again(ctx, *net);  // a parameter accepts the hooks of a second object
    net->zero_grad();
    loss_of_rank(net, ctx, 2).backward();
    again.wait();
    expect_same_on_all_ranks(ctx, {net->up->weight.grad()});
  });
}

TEST(DistributedModule, RanksMustHaveEqualModules) {
  on_ranks(2, [](Context& ctx) {
    ::torch::nn::Linear layer(4 + ctx.rank(), 2);
    EXPECT_THAT(error_of<MismatchError>([&] { DistributedModule(ctx, *layer); }),
                HasSubstr("weight"));
  });
}

TEST(DistributedModule, NamesWhatItDoesNotSupport) {
  on_ranks(1, [](Context& ctx) {
    ::torch::nn::ReLU without_parameters;
    EXPECT_EQ(error_of([&] { DistributedModule(ctx, *without_parameters); }),
              "no parameter of the module requires a gradient");
    Net net;
    EXPECT_THAT(error_of([&] {
                  DistributedModule(ctx, *net, {.gradients = {.backward_passes_per_step = 2}});
                }),
                HasSubstr("use no_sync()"));
    ::torch::nn::Module complex("complex");
    complex.register_parameter("weight", ::torch::ones({2}, at::kComplexFloat));
    EXPECT_THAT(error_of([&] { DistributedModule(ctx, complex); }),
                HasSubstr("'weight' has the element type ComplexFloat"));
  });
}

TEST(DistributedModule, NamesAGradientThatItCannotExchange) {
  on_ranks(1, [](Context& ctx) {
    ::torch::nn::Embedding table(::torch::nn::EmbeddingOptions(4, 2).sparse(true));
    const DistributedModule distributed(ctx, *table);
    EXPECT_THAT(error_of([&] {
                  table(::torch::tensor({1, 2})).sum().backward();
                }),
                HasSubstr("the gradient of 'weight' is sparse"));
    Net net;
    const DistributedModule other(ctx, *net);
    EXPECT_THAT(
        error_of([&] {
          loss_of_rank(net, ctx, 0).backward({}, /*keep_graph=*/true, /*create_graph=*/true);
        }),
        HasSubstr("does not support backward() with create_graph"));
  });
}

}  // namespace
}  // namespace horo::libtorch
