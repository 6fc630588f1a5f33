#include "ops/train/evaluation.h"

#include <gtest/gtest.h>

#include "horo/testing.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

/// Predicts the brightest row, which is correct for bars without noise. Has no parameters.
class RowSums : public Layer {
 public:
  Tensor forward(Tensor input, const Pass&) override {
    const std::size_t batch = input.shape()[0];
    Tensor logits = Tensor::zeros({batch, BarsDataset::kSide});
    for (std::size_t i = 0; i < input.count(); ++i)
      logits.values()[i / BarsDataset::kSide] += input.values()[i];
    return logits;
  }
  Tensor backward(Tensor gradient, const GradientReady&) override { return gradient; }
};

TEST(Evaluation, CountsEverySampleOnceOnAnyNumberOfRanks) {
  const BarsDataset dataset(97);
  Evaluation alone;
  testing::run_ranks(1, [&](Context& context) {
    RowSums model;
    alone = evaluate(context, model, dataset, {.global_batch = 97});
  });
  EXPECT_EQ(alone.count, 97);
  EXPECT_GT(alone.accuracy(), 0.9);
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t batch : {1, 10, 48, 1000}) {
      testing::run_ranks(ranks, [&](Context& context) {
        RowSums model;
        const auto evaluation = evaluate(context, model, dataset, {.global_batch = batch});
        EXPECT_EQ(evaluation.count, alone.count) << ranks << " ranks, batch " << batch;
        EXPECT_EQ(evaluation.correct, alone.correct) << ranks << " ranks, batch " << batch;
      });
    }
  }
}

}  // namespace
}  // namespace horo::ops
