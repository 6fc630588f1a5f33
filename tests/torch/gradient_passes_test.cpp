#include <gmock/gmock.h>

#include "horo/adapters/torch/distributed_module.h"
#include "tests/torch/ranks_with_torch.h"

namespace horo::libtorch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GradientPasses, AccumulateInNoSync) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    Net whole = copy_of(net);
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      whole->zero_grad();
      {
        const auto pause = distributed.no_sync();
        loss_of_rank(net, ctx, 3 * step).backward();
        distributed.wait();  // no effect
        loss_of_rank(net, ctx, 3 * step + 1).backward();
      }
      loss_of_rank(net, ctx, 3 * step + 2).backward();
      distributed.wait();
      for (int pass = 0; pass < 3; ++pass) loss_of_all(whole, ctx, 3 * step + pass).backward();
      expect_equal_gradients(*net, *whole);
    }
  });
}

TEST(GradientPasses, MayDifferInNumberBetweenRanks) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    Net reference = copy_of(net);
    {
      const auto pause = distributed.no_sync();
      for (int pass = 0; pass < ctx.rank(); ++pass) loss_of(net, pass, 2).backward();
    }
    loss_of(net, 100, 2).backward();
    distributed.wait();
    // Pass p runs on the ranks above p.
    for (int pass = 0; pass < ctx.size() - 1; ++pass)
      (loss_of(reference, pass, 2) * (ctx.size() - 1 - pass) / ctx.size()).backward();
    loss_of(reference, 100, 2).backward();
    expect_equal_gradients(*net, *reference);
  });
}

TEST(GradientPasses, ExchangeGradientsOfNoSyncThatTheLastPassDoesNotUse) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    Net reference = copy_of(net);
    const auto loss_of_extra = [](Net& model) {
      return model->extra(model->hidden(inputs_of(0, 2))).sum();
    };
    const auto loss_of_down = [](Net& model) {
      return model->down(model->hidden(inputs_of(2, 2))).sum();
    };
    {
      const auto pause = distributed.no_sync();
      (loss_of_extra(net) * (ctx.rank() + 1)).backward();
    }
    loss_of_down(net).backward();
    distributed.wait();
    (loss_of_extra(reference) * (ctx.size() + 1) / 2.0).backward();
    loss_of_down(reference).backward();
    expect_equal_gradients(*net, *reference);
  });
}

TEST(GradientPasses, OfDifferentParametersFormOneStep) {
  on_ranks(2, [](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    const at::Tensor features = net->hidden(inputs_of(ctx.rank(), 2)).detach();
    net->down(features).sum().backward();
    net->extra(features).sum().backward();
    net->up(inputs_of(ctx.rank(), 2)).sum().backward();
    distributed.wait();
    expect_same_on_all_ranks(
        ctx, {net->up->weight.grad(), net->down->weight.grad(), net->extra->weight.grad()});
  });
}

TEST(GradientPasses, OfTheSameParametersNeedNoSync) {
  on_ranks(1, [](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    loss_of_rank(net, ctx, 0).backward();
    EXPECT_THAT(error_of([&] { loss_of_rank(net, ctx, 1).backward(); }),
                AllOf(HasSubstr("got a second gradient"), HasSubstr("no_sync()")));
    EXPECT_THAT(error_of([&] { (void)distributed.no_sync(); }), HasSubstr("call wait() first"));
  });
}

TEST(UnusedParameters, AreNamed) {
  on_ranks(1, [](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net);
    net->down(net->hidden(inputs_of(0, 2))).sum().backward();
    EXPECT_THAT(error_of([&] { distributed.wait(); }),
                AllOf(HasSubstr("extra.weight"), HasSubstr("2 of 6 gradients")));
  });
}

TEST(UnusedParameters, CountAsZero) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net, {.gradients = {.find_unused = true}});
    Net reference = copy_of(net);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      reference->zero_grad();
      // Only rank 0 uses `extra`, and no rank uses `down`.
      const auto used = [&](Net& model) {
        return (model->up(inputs_of(0, 2)) * (ctx.rank() + 1)).sum();
      };
      const at::Tensor loss = used(net);
      (ctx.rank() == 0 ? loss + net->extra(net->hidden(inputs_of(step, 2)).detach()).sum() : loss)
          .backward();
      distributed.wait();
      (reference->up(inputs_of(0, 2)).sum() * (ctx.size() + 1) / 2.0 +
       reference->extra(reference->hidden(inputs_of(step, 2)).detach()).sum() / ctx.size())
          .backward();
      for (const char* name : {"up.weight", "up.bias", "extra.weight", "extra.bias"})
        expect_close(net->named_parameters()[name].grad(),
                     reference->named_parameters()[name].grad(), name);
      EXPECT_FALSE(net->down->weight.grad().defined());
      EXPECT_EQ(distributed.report().unused_everywhere.size(), 2u);
    }
  });
}

TEST(UnequalData, JoinKeepsTheReplicasEqual) {
  for_numbers_of_ranks([](Context& ctx) {
    Net net;
    DistributedModule distributed(ctx, *net, {.gradients = {.weighted = true}});
    ::torch::optim::Adam optimizer(net->parameters(), 0.01);
    for (int step = 0; step < 1 + 2 * ctx.rank(); ++step) {
      optimizer.zero_grad();
      loss_of_rank(net, ctx, step).backward();
      distributed.wait();
      optimizer.step();
    }
    const int last = distributed.join([&] {
      optimizer.step();
      optimizer.zero_grad();
    });
    EXPECT_EQ(last, ctx.size() - 1);
    expect_same_on_all_ranks(ctx, net->parameters());
  });
}

}  // namespace
}  // namespace horo::libtorch
