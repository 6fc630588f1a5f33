#include "ops/parallel/collective_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/device/device_backend.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

const Pass kTrainingPass{.training = true};

/// Makes the layer under test for a group.
using MakeCollectiveLayer = std::unique_ptr<Layer> (*)(Context&);
template <typename T>
std::unique_ptr<Layer> make_collective(Context& group) {
  return std::make_unique<T>(group, "layer");
}

/// Which losses are differentiated; see CollectiveLayer.
enum class LossOf { kSumOfRanks, kOneLoss, kOneLossOfEqualInputs };

/// A loss of rank `rank` that is quadratic, so that central differences are exact, and different on
/// each rank unless all ranks have the same loss.
double collective_loss(const Tensor& y, int rank) {
  double loss = 0;
  for (std::size_t i = 0; i < y.count(); ++i) {
    const double value = static_cast<double>(y.values()[i]);
    const double weight =
        0.25 * static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
    loss += weight * value + 0.5 * (1 + rank) * value * value;
  }
  return loss;
}
Tensor collective_loss_gradient(const Tensor& y, int rank) {
  Tensor gradient(y.shape());
  for (std::size_t i = 0; i < y.count(); ++i) {
    const double weight =
        0.25 * static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
    gradient.values()[i] =
        static_cast<float>(weight + (1 + rank) * static_cast<double>(y.values()[i]));
  }
  return gradient;
}

/// Values of multiples of 1/8, so that sums and differences are exact.
Tensor eighths(const Shape& shape, int rank) {
  Tensor x(shape);
  for (std::size_t i = 0; i < x.count(); ++i)
    x.values()[i] =
        0.125f * static_cast<float>((i * 5 + static_cast<std::size_t>(rank) * 11) % 17) - 1.0f;
  return x;
}

/// Compares the gradient of every input value of every rank with the central difference of the
/// loss that `of` selects.
void expect_numerical_gradients(Context& group, MakeCollectiveLayer make, LossOf of,
                                const Shape& shape) {
  const std::unique_ptr<Layer> layer = make(group);
  const bool is_equal_input = of == LossOf::kOneLossOfEqualInputs;
  // With equal inputs, each rank uses the output in its own part of the one loss.
  const int loss_rank = of == LossOf::kOneLoss ? 0 : group.rank();
  Tensor x = eighths(shape, is_equal_input ? 0 : group.rank());
  const auto own_loss = [&] {
    return collective_loss(layer->forward(x.clone(), kTrainingPass), loss_rank);
  };
  const Tensor y = layer->forward(x.clone(), kTrainingPass);
  const Tensor gradient = layer->backward(collective_loss_gradient(y, loss_rank), {});
  ASSERT_EQ(gradient.shape(), shape);
  constexpr float kStep = 0.5f;
  // The differences of the losses of this rank, for each value of each rank. With equal inputs, all
  // ranks change a value together.
  const int changed_ranks = is_equal_input ? 1 : group.size();
  std::vector<double> differences;
  for (int rank = 0; rank < changed_ranks; ++rank)
    for (std::size_t i = 0; i < shape.count(); ++i) {
      const bool is_changed = is_equal_input || rank == group.rank();
      const float centre = x.values()[i];
      if (is_changed) x.values()[i] = centre + kStep;
      const double above = own_loss();
      if (is_changed) x.values()[i] = centre - kStep;
      differences.push_back((above - own_loss()) / (2 * static_cast<double>(kStep)));
      x.values()[i] = centre;
    }
  if (of != LossOf::kOneLoss)
    group.allreduce(TensorView(differences), {.name = "differences", .op = ReduceOp::kSum});
  const std::size_t first =
      is_equal_input ? 0 : static_cast<std::size_t>(group.rank()) * shape.count();
  for (std::size_t i = 0; i < shape.count(); ++i)
    ASSERT_NEAR(differences[first + i], gradient.values()[i], 1e-4)
        << "rank " << group.rank() << " of " << group.size() << ", value " << i;
}

TEST(CollectiveLayers, GradientsMatchCentralDifferences) {
  for (const int ranks : std::vector<int>{1, 2, 3})
    run_ranks(ranks, [](Context& ctx) {
      const auto rows = static_cast<std::size_t>(ctx.size());
      expect_numerical_gradients(ctx, make_collective<Allreduce>, LossOf::kSumOfRanks, {2, 3});
      expect_numerical_gradients(ctx, make_collective<AllgatherRows>, LossOf::kSumOfRanks, {2, 2});
      expect_numerical_gradients(ctx, make_collective<ReduceScatterRows>, LossOf::kSumOfRanks,
                                 {2 * rows, 1});
      expect_numerical_gradients(ctx, make_collective<AllreduceInForward>, LossOf::kOneLoss,
                                 {5, 1});
      expect_numerical_gradients(ctx, make_collective<AllreduceInBackward>,
                                 LossOf::kOneLossOfEqualInputs, {1, 7});
    });
}

TEST(CollectiveLayers, WorkInProcessSets) {
  run_ranks(4, [](Context& ctx) {
    ProcessSet low = ctx.new_process_set({0, 1});
    ProcessSet high = ctx.new_process_set({2, 3});
    ProcessSet& own = low.includes_me() ? low : high;
    expect_numerical_gradients(own, make_collective<AllgatherRows>, LossOf::kSumOfRanks, {1, 3});
    expect_numerical_gradients(own, make_collective<Allreduce>, LossOf::kSumOfRanks, {4});
  });
}

// The same layers on the stand-in for a GPU give the same values as in host memory.
TEST(CollectiveLayers, MatchHostMemoryOnADevice) {
  run_ranks(2, [](Context& ctx) {
    const auto gpu = std::make_shared<device::HostDevice>();
    DeviceBackend backend(*gpu);
    const MakeCollectiveLayer all[] = {
        make_collective<Allreduce>, make_collective<AllreduceInForward>,
        make_collective<AllreduceInBackward>, make_collective<AllgatherRows>,
        make_collective<ReduceScatterRows>};
    for (const MakeCollectiveLayer make : all) {
      const std::unique_ptr<Layer> on_host = make(ctx), on_device = make(ctx);
      on_device->move_to(backend);
      const Tensor x = eighths({4, 3}, ctx.rank());
      const Tensor y = on_host->forward(x.clone(), kTrainingPass);
      Tensor device_y = on_device->forward(backend.from_host(x.clone()), kTrainingPass);
      EXPECT_EQ(values_of(backend.to_host(device_y)), values_of(y));
      const Tensor dx = on_host->backward(y.clone(), {});
      const Tensor device_dx = on_device->backward(std::move(device_y), {});
      EXPECT_EQ(values_of(backend.to_host(device_dx)), values_of(dx));
    }
  });
}

TEST(CollectiveLayers, RefuseUnevenRows) {
  run_ranks(2, [](Context& ctx) {
    ReduceScatterRows layer(ctx, "scatter");
    EXPECT_THAT(message_of<InvalidArgument>([&] {
                  layer.forward(eighths({3, 2}, 0), kTrainingPass);
                }),
                HasSubstr("scatter.forward: the rows of [3, 2] cannot be divided evenly among 2"));
    EXPECT_THROW(Allreduce(ctx, ""), InvalidArgument);
  });
}

// An input whose memory another tensor shares must not change.
TEST(CollectiveLayers, KeepSharedInput) {
  run_ranks(2, [](Context& ctx) {
    Allreduce layer(ctx, "sum");
    Tensor x = eighths({6}, ctx.rank());
    const Tensor y = layer.forward(x.shared(), kTrainingPass);
    EXPECT_EQ(values_of(x), values_of(eighths({6}, ctx.rank())));
    EXPECT_NE(values_of(y), values_of(x));
  });
}

}  // namespace
}  // namespace horo::ops
