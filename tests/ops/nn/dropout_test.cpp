#include "ops/nn/layers/dropout.h"

#include <numeric>

#include "horo/base/error.h"
#include "ops/nn/sequential.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

/// The network's output for samples [first, first + count) of one fixed global batch.
std::vector<float> forward_part(Layer& layer, std::size_t first, std::size_t count,
                                std::uint64_t step) {
  constexpr std::size_t kFeatures = 21;
  const auto all = varied_values(16 * kFeatures, 1);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * kFeatures);
  const auto samples = sample_indices(count, 5000 + first);
  const Pass pass{.training = true, .seed = 42, .step = step, .samples = samples};
  return values_of(layer.forward(
      tensor_of({count, 3, 7}, {begin, begin + static_cast<std::ptrdiff_t>(count * kFeatures)}),
      pass));
}

TEST(Dropout, MaskDoesNotDependOnTheNumberOfRanks) {
  Dropout layer({.probability = 0.3f});
  const auto whole = forward_part(layer, 0, 16, 7);
  for (const std::size_t ranks : {2, 4, 16}) {
    std::vector<float> joined;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Dropout of_rank({.probability = 0.3f});
      const auto part = forward_part(of_rank, rank * 16 / ranks, 16 / ranks, 7);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << ranks << " ranks";
  }
}

TEST(Dropout, StepsAndSeedsDrawDifferently) {
  Dropout layer;
  const auto base = forward_part(layer, 0, 16, 7);
  EXPECT_EQ(base, forward_part(layer, 0, 16, 7));
  EXPECT_NE(base, forward_part(layer, 0, 16, 8));
  const auto samples = sample_indices(1);
  const auto ones = [&](std::uint64_t seed) {
    return values_of(layer.forward(tensor_of({1, 64}, std::vector<float>(64, 1.0f)),
                                   {.training = true, .seed = seed, .samples = samples}));
  };
  EXPECT_NE(ones(1), ones(2));
}

TEST(Dropout, LayersOfANetworkDrawDifferently) {
  const auto kept_by = [](std::size_t layer, Sequential& network) {
    const auto samples = sample_indices(1);
    const Pass pass{.training = true, .seed = 3, .samples = samples};
    Tensor ones = tensor_of({1, 64}, std::vector<float>(64, 1.0f));
    (void)network.forward(std::move(ones), pass);
    return values_of(network[layer].backward(tensor_of({1, 64}, std::vector<float>(64, 1.0f)), {}));
  };
  Sequential network;
  network.add("first", Dropout()).add("second", Dropout());
  EXPECT_NE(kept_by(0, network), kept_by(1, network));
}

TEST(Dropout, KeepsTheExpectationAndRoutesTheGradient) {
  Dropout layer({.probability = 0.25f});
  const auto samples = sample_indices(100);
  const auto input = varied_values(100 * 400, 3);
  const Tensor output = layer.forward(tensor_of({100, 400}, input),
                                      {.training = true, .seed = 1, .samples = samples});
  double expected = 0;
  double sum = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    expected += std::abs(input[i]);
    sum += std::abs(output.values()[i]);
  }
  EXPECT_NEAR(sum / expected, 1.0, 0.02);
  const Tensor gradient = layer.backward(tensor_of({100, 400}, input), {});
  EXPECT_EQ(values_of(gradient), values_of(output));  // the same factors
}

TEST(Dropout, InferenceReturnsTheInput) {
  Dropout layer({.probability = 0.9f});
  const Tensor input = varied_tensor({3, 50}, 1);
  EXPECT_EQ(values_of(layer.forward(input.clone(), {})), values_of(input));
}

TEST(Dropout, NeedsTheSampleIndices) {
  Dropout layer;
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)layer.forward(varied_tensor({3, 5}, 1), {.training = true});
            }),
            "Dropout: 0 sample indices for input [3, 5]; expected 3");
  EXPECT_EQ(message_of<InvalidArgument>([] { Dropout({.probability = 1.0f}); }),
            "Dropout: probability is 1; must be in [0, 1)");
}

}  // namespace
}  // namespace horo::ops
