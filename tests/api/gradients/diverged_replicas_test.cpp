// Gradients whose memory moved, and replicas that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "horo/base/hash.h"
#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_ranks;

TEST(MovedGradient, IsNamedByReady) {
  run_ranks(2, [](Context& ctx) {
    auto first = std::make_unique<std::vector<float>>(12, 1.0f);
    std::vector<float> second(3, 1.0f);
    const std::vector<NamedTensor> gradients = {{"fc1.weight", {first->data(), {4, 3}}},
                                                {"fc1.bias", second}};
    GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum});
    sync.ready(0, {first->data(), {3, 4}});
    sync.ready(1, second);
    sync.wait();
    EXPECT_EQ((*first)[11], 2.0f);

    // Moves the gradient, like a framework that frees gradients between steps.
    const auto moved = std::make_unique<std::vector<float>>(*first);
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.ready(0, *moved); }),
                AllOf(HasSubstr("'fc1.weight'"), HasSubstr("was registered at 0x"),
                      HasSubstr("is now at 0x"), HasSubstr("update()")));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  sync.ready(0, {first->data(), {11}});
                }),
                AllOf(HasSubstr("float32 [4, 3]"), HasSubstr("float32 [11]")));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.ready(2, second); }),
                HasSubstr("only 2 gradients"));
    sync.ready(0, *first);  // none of these has marked it
    sync.ready(1, second);
    sync.wait();
    EXPECT_EQ(second[2], 4.0f);
  });
}

struct ReplicaModel {
  std::vector<float> weight = std::vector<float>(3001, 0.5f);
  std::vector<double> bias = std::vector<double>(17, 2.0);
  std::vector<NamedTensor> tensors() { return {{"weight", weight}, {"bias", bias}}; }
};

TEST(CheckEqual, NamesFirstTensorAndRanksThatDiffer) {
  for (const int ranks : {2, 5})
    run_ranks(ranks, [](Context& ctx) {
      ReplicaModel model;
      ctx.check_equal(model.tensors(), {.name = "parameters"});
      if (ctx.rank() == 1) model.bias[16] += 1e-12;
      EXPECT_THAT(
          error_text<MismatchError>(
              [&] { ctx.check_equal(model.tensors(), {.name = "parameters"}); }),
          AllOf(HasSubstr("check_equal.parameters"), HasSubstr("'bias', float64 [17]"),
                HasSubstr("rank 1 (host"), HasSubstr("1 of 2 tensors"), Not(HasSubstr("rank 2")),
                HasSubstr(ctx.size() == 2 ? ") is " : ") and 3 other ranks is ")));
      if (ctx.rank() == 0) model.weight[0] = -0.0f;
      if (ctx.rank() != 0) model.weight[0] = 0.0f;
      EXPECT_THAT(error_text<MismatchError>([&] { ctx.check_equal(model.tensors()); }),
                  AllOf(HasSubstr("'weight', float32 [3001]"), HasSubstr("2 of 2 tensors"),
                        HasSubstr(ctx.size() == 2 ? "rank 1 (host" : "rank 0 (host")));
      ctx.barrier();  // the job continues
    });
}

TEST(CheckEqual, ComparesEveryNthCall) {
  run_ranks(2, [](Context& ctx) {
    ReplicaModel model;
    int found = 0;
    for (int call = 0; call < 9; ++call) {
      if (call == 1 && ctx.rank() == 1) model.weight[7] = 0;
      try {
        ctx.check_equal(model.tensors(), {.name = "w", .every = 4});
      } catch (const MismatchError&) {
        ++found;
        EXPECT_EQ(call % 4, 0);
      }
    }
    EXPECT_EQ(found, 2);
  });
}

TEST(CheckEqual, NamesDifferentArguments) {
  run_ranks(2, [](Context& ctx) {
    ReplicaModel model;
    const bool is_odd = ctx.rank() == 1;
    const auto text = [&](std::vector<NamedTensor> tensors, std::uint64_t every) {
      return error_text<MismatchError>([&] { ctx.check_equal(tensors, {.every = every}); });
    };
    EXPECT_THAT(text(model.tensors(), is_odd ? 1 : 2), HasSubstr("every = 2 on rank 0"));
    std::vector<NamedTensor> fewer = model.tensors();
    if (is_odd) fewer.pop_back();
    EXPECT_THAT(text(fewer, 1),
                AllOf(HasSubstr("'bias', float64 [17] on rank 0"), HasSubstr("missing on rank 1")));
    std::vector<NamedTensor> other = model.tensors();
    if (is_odd) other[0].name = "w";
    EXPECT_THAT(text(other, 1), AllOf(HasSubstr("'weight'"), HasSubstr("'w'")));
    EXPECT_THROW(ctx.check_equal({}), InvalidArgument);
    EXPECT_THROW(ctx.check_equal(model.tensors(), {.every = 0}), InvalidArgument);
  });
}

TEST(HashContents, DependsOnEveryByteAndLength) {
  std::vector<unsigned char> block(133, 7);
  const std::uint64_t before = hash_contents(block.data(), block.size());
  for (std::size_t i = 0; i < block.size(); ++i) {
    block[i] ^= 0x80;
    EXPECT_NE(hash_contents(block.data(), block.size()), before) << i;
    block[i] ^= 0x80;
    EXPECT_NE(hash_contents(block.data(), i), before) << i;
  }
  EXPECT_EQ(hash_contents(block.data(), block.size()), before);
}

}  // namespace
}  // namespace horo
