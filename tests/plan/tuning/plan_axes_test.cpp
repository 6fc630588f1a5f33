#include "horo/plan/tuning/plan_axes.h"

#include <gtest/gtest.h>

#include <string>

namespace horo::plan {
namespace {

// Gradients of 10, 20, ... KiB.
class Model {
 public:
  explicit Model(std::size_t tensors) {
    for (std::size_t t = 0; t < tensors; ++t) values_.emplace_back((t + 1) * 2560);
  }
  std::vector<NamedTensor> gradients() {
    std::vector<NamedTensor> named;
    for (std::size_t t = 0; t < values_.size(); ++t)
      named.push_back({"t" + std::to_string(t), TensorView(values_[t])});
    return named;
  }

 private:
  std::vector<std::vector<float>> values_;
};

Topology shape(int ranks, int per_node) {
  std::vector<std::string> nodes;
  for (int r = 0; r < ranks; ++r) nodes.push_back(std::to_string(r / per_node));
  return make_topology(0, nodes, nodes);
}

Settings settings(std::size_t bucket_bytes = 65536, std::size_t segment_bytes = 16384) {
  Settings result;
  result.bucket_bytes = bucket_bytes;
  result.ring_segment_bytes = segment_bytes;
  return result;
}

std::vector<std::string> names(const std::vector<Axis>& axes) {
  std::vector<std::string> result;
  for (const Axis& axis : axes) result.push_back(axis.name);
  return result;
}

using Names = std::vector<std::string>;

TEST(PlanAxes, DependOnShapeOfJob) {
  Model model(12);
  const auto axes = [&](int ranks, int per_node) {
    return names(plan_axes(model.gradients(), {}, settings(), shape(ranks, per_node)));
  };
  EXPECT_EQ(axes(1, 1), Names{});
  EXPECT_EQ(axes(4, 4), Names{"bucket_bytes"});
  EXPECT_EQ(axes(4, 1), (Names{"bucket_bytes", "ring_segment_bytes"}));
  EXPECT_EQ(axes(4, 2), (Names{"hierarchical", "bucket_bytes", "ring_segment_bytes"}));
  EXPECT_EQ(axes(3, 2), (Names{"hierarchical", "bucket_bytes", "ring_segment_bytes"}));
}

TEST(PlanAxes, RespectForcedSettings) {
  Model model(12);
  Settings forced = settings();
  forced.algorithm = Algorithm::kRing;
  EXPECT_EQ(names(plan_axes(model.gradients(), {}, forced, shape(4, 2))),
            (Names{"bucket_bytes", "ring_segment_bytes"}));
  EXPECT_EQ(names(plan_axes(model.gradients(), {}, forced, shape(2, 2))),
            (Names{"bucket_bytes", "ring_segment_bytes"}));
  forced.allreduce = MessageAllreduce::kDoubling;
  EXPECT_EQ(names(plan_axes(model.gradients(), {}, forced, shape(4, 2))), Names{"bucket_bytes"});
  forced.algorithm = Algorithm::kMpi;
  EXPECT_EQ(names(plan_axes(model.gradients(), {}, forced, shape(4, 2))), Names{"bucket_bytes"});
}

TEST(PlanAxes, SkipBucketSizesThatPackEqually) {
  Model model(3);  // 10, 20 and 30 KiB
  const auto axes = plan_axes(model.gradients(), {}, settings(32 * 1024), shape(2, 2));
  ASSERT_EQ(names(axes), Names{"bucket_bytes"});
  // Separate buckets; 10 and 20 KiB in one; all in one.
  EXPECT_EQ(axes[0].values, (std::vector<std::size_t>{2048, 32768, 65536}));
  EXPECT_EQ(axes[0].start, 1u);
  Model single(1);
  EXPECT_TRUE(plan_axes(single.gradients(), {}, settings(), shape(2, 2)).empty());
}

TEST(PlanAxes, AreEmptyForLargestBucketSize) {
  Model model(3);
  const std::size_t all = std::size_t{1} << 63;
  const auto axes = plan_axes(model.gradients(), {.bucket_bytes = all}, settings(), shape(2, 2));
  EXPECT_TRUE(axes.empty());
}

TEST(PlanAxes, SegmentsAreAtMostBytesSent) {
  Model model(3);  // 60 KiB, of which each of four ranks sends 15 KiB at a time
  const auto axes = plan_axes(model.gradients(), {.bucket_bytes = 8192}, settings(), shape(4, 1));
  EXPECT_EQ(axes.back().values, (std::vector<std::size_t>{4096, 8192, 16384}));
  EXPECT_EQ(axes.back().start, 2u);
  const auto large =
      plan_axes(model.gradients(), {.bucket_bytes = 8192}, settings(65536, 1 << 20), shape(4, 1));
  EXPECT_EQ(names(large), Names{"bucket_bytes"});
}

TEST(PlanAxes, KeepCompressedBucketsAndAddRequestedWire) {
  Model model(12);
  EXPECT_EQ(names(plan_axes(model.gradients(), {.compression = {.kind = Compression::Kind::kTopK}},
                            settings(), shape(4, 2))),
            (Names{"hierarchical", "ring_segment_bytes"}));
  const GradientSyncOptions options{.tune_wire = DataType::kBFloat16};
  const auto axes = plan_axes(model.gradients(), options, settings(), shape(4, 2));
  ASSERT_EQ(names(axes),
            (Names{"hierarchical", "wire_bits", "bucket_bytes", "ring_segment_bytes"}));
  EXPECT_EQ(names(plan_axes(model.gradients(), options, settings(), shape(4, 4))),
            Names{"bucket_bytes"});
  const PlanChoice start = untuned(options, settings());
  const PlanChoice other = with_values(start, options, axes, {1, 1, 0, 0});
  EXPECT_EQ(other.algorithm, Algorithm::kRing);
  EXPECT_EQ(other.wire, DataType::kBFloat16);
  EXPECT_EQ(other.bucket_bytes, axes[2].values[0]);
  EXPECT_EQ(other.ring_segment_bytes, axes[3].values[0]);
  EXPECT_TRUE(has_algorithms(axes));
  EXPECT_FALSE(has_algorithms(plan_axes(model.gradients(), options, settings(), shape(4, 1))));
  const PlanChoice same = with_values(start, options, axes, {0, 0, axes[2].start, axes[3].start});
  EXPECT_EQ(same.algorithm, start.algorithm);
  EXPECT_EQ(same.wire, start.wire);
  EXPECT_EQ(same.ring_segment_bytes, start.ring_segment_bytes);
  EXPECT_EQ(same.bucket_bytes, start.bucket_bytes);
}

}  // namespace
}  // namespace horo::plan
