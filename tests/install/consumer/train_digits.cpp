// A user's training program. It needs only the installed headers and libraries.
#include <horo/horo.h>
#include <ops/data/datasets/digits_dataset.h>
#include <ops/nn/models/models.h>
#include <ops/optim/sgd.h>
#include <ops/train/trainer.h>

#include <cstdio>

int main() {
  using namespace horo::ops;
  horo::Context context = horo::init();
  const DigitsDataset train_set({.size = 128});
  const DigitsDataset test_set({.split = Split::kTest, .size = 64});
  const auto model = make_mlp();
  Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
  TrainerOptions options;
  options.epochs = 2;
  options.global_batch = 32;
  const TrainReport report =
      Trainer(context, *model, optimizer, train_set, test_set, options).run();
  std::printf("rank %d of %d: %lld steps\n", context.rank(), context.size(),
              static_cast<long long>(report.steps));
  context.shutdown();
  return report.steps == 8 ? 0 : 1;
}
