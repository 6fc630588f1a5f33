#include "horo/adapters/torch/checkpoint.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/flight_recorder/temporary_directory.h"
#include "tests/torch/ranks_with_torch.h"

namespace horo::libtorch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct TrainingRun {
  explicit TrainingRun(Context& ctx) : context(ctx), distributed(ctx, *net) {}
  void train(int first, int end) {
    for (int step = first; step < end; ++step) {
      optimizer.zero_grad();
      loss_of_rank(net, context, step).backward();
      distributed.wait();
      optimizer.step();
    }
  }
  Context& context;
  Net net;
  DistributedModule distributed;
  ::torch::optim::Adam optimizer{net->parameters(), ::torch::optim::AdamOptions(0.05)};
};

TEST(TorchCheckpoint, ContinuesAsIfUninterrupted) {
  for_numbers_of_ranks([](Context& ctx) {
    static const observe::TemporaryDirectory directory;
    const std::string file = directory.file("run.pt");
    TrainingRun whole(ctx);
    whole.train(0, 3);
    save_checkpoint(ctx, file, *whole.net, &whole.optimizer, 3);
    whole.train(3, 6);

    TrainingRun resumed(ctx);
    resumed.train(0, 1);  // load_checkpoint() replaces the state of an optimizer that is in use
    // Only rank 0 needs the file.
    const std::string known = ctx.rank() == 0 ? file : "none";
    EXPECT_EQ(load_checkpoint(ctx, known, *resumed.net, &resumed.optimizer), 3);
    resumed.train(3, 6);
    const auto expected = whole.net->named_parameters();
    for (const auto& item : resumed.net->named_parameters())
      EXPECT_TRUE(::torch::equal(item.value(), expected[item.key()])) << item.key();
    expect_close(resumed.net->offset, whole.net->offset, "buffer");
  });
}

TEST(TorchCheckpoint, FailsOnAllRanksIfRank0CannotUseTheFile) {
  on_ranks(2, [](Context& ctx) {
    static const observe::TemporaryDirectory directory;
    Net net;
    const std::string none = directory.file("none/run.pt");
    EXPECT_EQ(error_of([&] { (void)load_checkpoint(ctx, none, *net); }),
              "cannot read " + none + ": No such file or directory");
    EXPECT_THAT(error_of([&] { save_checkpoint(ctx, none, *net); }),
                HasSubstr("cannot create " + none));
    const std::string damaged = directory.file("damaged.pt");
    if (ctx.rank() == 0) std::ofstream(damaged) << "no archive";
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(ctx, damaged, *net); }),
                HasSubstr("cannot load the checkpoint " + damaged));
  });
}

TEST(TorchCheckpoint, NamesWhatDoesNotFit) {
  on_ranks(2, [](Context& ctx) {
    static const observe::TemporaryDirectory directory;
    const std::string file = directory.file("linear.pt");
    ::torch::nn::Linear saved(4, 2), wider(5, 2);
    save_checkpoint(ctx, file, *saved);
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(ctx, file, *wider); }),
                HasSubstr("'weight' has the shape [2, 4], but in the module [2, 5]"));
    Net other;
    EXPECT_THAT(
        error_of([&] { (void)load_checkpoint(ctx, file, *other); }),
        AllOf(HasSubstr("cannot load the checkpoint " + file), ::testing::Not(HasSubstr("\n"))));
    ::torch::optim::SGD optimizer(saved->parameters(), 0.1);
    EXPECT_THAT(error_of([&] { (void)load_checkpoint(ctx, file, *saved, &optimizer); }),
                HasSubstr("it was saved without an optimizer"));
  });
}

TEST(BroadcastOptimizer, CopiesStateAndOptions) {
  on_ranks(3, [](Context& ctx) {
    TrainingRun run(ctx);
    run.train(0, 2);
    auto& options =
        static_cast<::torch::optim::AdamOptions&>(run.optimizer.param_groups()[0].options());
    options.lr(0.1 * (ctx.rank() + 1));
    for (auto& state : run.optimizer.state()) {
      auto& adam = static_cast<::torch::optim::AdamParamState&>(*state.second);
      adam.exp_avg().fill_(ctx.rank() + 1);
    }
    broadcast_optimizer(ctx, run.optimizer);
    EXPECT_DOUBLE_EQ(
        static_cast<::torch::optim::AdamOptions&>(run.optimizer.param_groups()[0].options()).lr(),
        0.1);
    EXPECT_EQ(run.optimizer.state().size(), 6u);
    for (auto& state : run.optimizer.state())
      EXPECT_EQ(
          static_cast<::torch::optim::AdamParamState&>(*state.second).exp_avg().min().item<float>(),
          1);
    run.train(2, 3);
    expect_same_on_all_ranks(ctx, run.net->parameters());
  });
}

}  // namespace
}  // namespace horo::libtorch
