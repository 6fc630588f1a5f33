// bool, int16 and uint16; inputs that are const; shapes of signed numbers; memory that overlaps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/device/device_model.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

constexpr std::size_t kCount = 1003;
using Bools = std::array<bool, kCount>;

// All four combinations of the two lowest bits occur.
bool own_bool(int rank, std::size_t i) { return (i >> (rank % 2)) % 2 == 1 || (i / 4) % 3 == 0; }

TEST(ElementTypes, BoolReducesWithOrAndAnd) {
  for (const char* per_node : {"0", "1"})
    run_ranks(3,
              [](Context& ctx) {
                for (const ReduceOp op :
                     {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
                  const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax;
                  Bools x, expected, shard{};
                  for (std::size_t i = 0; i < kCount; ++i) {
                    x[i] = own_bool(ctx.rank(), i);
                    expected[i] = !is_or;
                    for (int r = 0; r < ctx.size(); ++r)
                      expected[i] =
                          is_or ? expected[i] || own_bool(r, i) : expected[i] && own_bool(r, i);
                  }
                  const Bools input = x;
                  const std::size_t rows = ctx.shard_rows(kCount);
                  ctx.reduce_scatter(input, {shard.data(), {rows}}, {.op = op});
                  ctx.allreduce(x, {.op = op});
                  EXPECT_EQ(x, expected) << name_of(op);
                  // 1003 rows on 3 ranks: 335, 334 and 334.
                  const std::size_t first =
                      std::array{0ul, 335ul, 669ul}.at(static_cast<std::size_t>(ctx.rank()));
                  ASSERT_EQ(rows, ctx.rank() == 0 ? 335u : 334u);
                  for (std::size_t k = 0; k < rows; ++k) {
                    ASSERT_EQ(shard[k], expected[first + k]) << name_of(op) << " row " << k;
                  }
                }
              },
              {.environment = {std::string("HORO_RANKS_PER_NODE=") + per_node}});
}

TEST(ElementTypes, RejectsAverageOfBool) {
  run_ranks(2, [](Context& ctx) {
    std::array<bool, 4> x{}, y{};
    const std::vector<NamedTensor> tensors = {{"mask", x}};
    const auto text = [](auto&& call) { return error_text<InvalidArgument>(call); };
    const auto is_clear = AllOf(HasSubstr("'mask'"), HasSubstr("average is not defined for bool"));
    EXPECT_THAT(text([&] { ctx.allreduce(x, {.name = "mask"}); }), is_clear);
    EXPECT_THAT(text([&] { ctx.allreduce_group(tensors); }), is_clear);
    EXPECT_THAT(text([&] { ctx.reduce_scatter(x, y, {.name = "mask"}); }), is_clear);
    EXPECT_THAT(text([&] { GradientSync sync(ctx, tensors); }),
                HasSubstr("average is not defined for bool"));
  });
}

TEST(ElementTypes, JoinedRankContributesNeutralBool) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin})
    run_ranks(3, [&](Context& ctx) {
      std::array<bool, 2> x = {true, false};
      if (ctx.rank() != 1) {
        ctx.allreduce(x, {.name = "x", .op = op});
        EXPECT_EQ(x, (std::array<bool, 2>{true, false})) << name_of(op);
      }
      ctx.join();
    });
}

TEST(ElementTypes, RejectsInt16ReductionOnDevices) {
  run_ranks(2, [](Context& ctx) {
    DeviceModel model(ctx);
    const device::Memory memory = model.device().allocate(64);
    const TensorView tensor(memory.data(), DataType::kInt16, {4}, model.device());
    const auto is_clear =
        AllOf(HasSubstr("'ids'"), HasSubstr("int16 cannot be reduced on a device"),
              HasSubstr("convert it to int32"));
    const auto stream = model.stream();
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { ctx.allreduce(tensor, {.name = "ids", .stream = stream->native()}); }),
                is_clear);
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync sync(ctx, std::vector<NamedTensor>{{"ids", tensor}});
                }),
                is_clear);
    ctx.broadcast(tensor, {.name = "ids", .stream = stream->native()});
  });
}

TEST(ElementTypes, AcceptsConstInputs) {
  run_ranks(2, [](Context& ctx) {
    const std::vector<std::int16_t> input = {1, 2, 3, 4};
    std::vector<std::int16_t> sum(4), all(8), half(2), dealt(4);
    ctx.allreduce(input, sum, {.op = ReduceOp::kSum});
    ctx.allreduce_async(input, sum, {.op = ReduceOp::kSum}).wait();
    ctx.allgather(input, all);
    ctx.reduce_scatter({input.data(), {4}}, half, {.op = ReduceOp::kSum});
    ctx.alltoall(std::span<const std::int16_t>(input), dealt);
    EXPECT_EQ(sum, (std::vector<std::int16_t>{2, 4, 6, 8}));
    EXPECT_EQ(all, (std::vector<std::int16_t>{1, 2, 3, 4, 1, 2, 3, 4}));
    EXPECT_EQ(half, (ctx.rank() == 0 ? std::vector<std::int16_t>{2, 4}
                                     : std::vector<std::int16_t>{6, 8}));
    EXPECT_EQ(dealt, (ctx.rank() == 0 ? std::vector<std::int16_t>{1, 2, 1, 2}
                                      : std::vector<std::int16_t>{3, 4, 3, 4}));
  });
}

TEST(Overlap, OfGradientsFailsAllRanks) {
  for (const int ranks : {1, 3})
    run_ranks(ranks, [](Context& ctx) {
      std::vector<float> memory(30), apart(10);
      const bool is_odd = ctx.rank() == ctx.size() - 1;  // only there do gradients overlap
      const std::vector<NamedTensor> gradients = {
          {"fc1", {memory.data() + 20, {10}}},
          {"fc2", {is_odd ? memory.data() + 11 : memory.data(), {10}}},
          {"empty", {memory.data() + 15, {0}}},
          {"fc3", apart}};
      const auto is_clear = AllOf(HasSubstr("'fc2'"), HasSubstr("'fc1'"), HasSubstr("overlap"));
      const auto names_rank = HasSubstr(ctx.size() > 1 ? "rank 2" : "");
      EXPECT_THAT(error_text<InvalidArgument>([&] { GradientSync sync(ctx, gradients); }),
                  AllOf(is_clear, names_rank));
      const std::vector<NamedTensor> good = {gradients[0], gradients[3]};
      GradientSync sync(ctx, good, {.op = ReduceOp::kSum});
      EXPECT_THAT(error_text<InvalidArgument>([&] { sync.update(gradients); }),
                  AllOf(is_clear, names_rank));
      apart.assign(10, 1.0f);
      sync.exchange();  // the former plan stays
      EXPECT_EQ(apart[9], static_cast<float>(ctx.size()));
    });
}

TEST(Overlap, OfDeviceGradientsFailsAllRanks) {
  run_ranks(2, [](Context& ctx) {
    DeviceModel model(ctx);
    std::vector<NamedTensor> gradients = model.gradients();
    if (ctx.rank() == 1)
      gradients[5].tensor = {gradients[0].tensor.data(), DataType::kFloat32, {1}, model.device()};
    if (ctx.rank() == 0)
      gradients[5].tensor = {gradients[5].tensor.data(), DataType::kFloat32, {1}, model.device()};
    EXPECT_THAT(error_text<InvalidArgument>([&] { GradientSync sync(ctx, gradients); }),
                AllOf(HasSubstr("rank 1"), HasSubstr("'layer0' and 'layer5' overlap")));
  });
}

TEST(Overlap, InReducedGroupIsRejected) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(8);
    const std::vector<NamedTensor> tensors = {{"a", {x.data(), {5}}}, {"b", {x.data() + 4, {4}}}};
    EXPECT_THAT(error_text<InvalidArgument>([&] { ctx.allreduce_group(tensors); }),
                AllOf(HasSubstr("'a' and 'b' overlap"), HasSubstr("group")));
    ctx.broadcast_group(tensors);  // the root's values are correct in any order
  });
}

}  // namespace
}  // namespace horo
