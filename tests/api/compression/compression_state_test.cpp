#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/compression/compressed_set.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using Kind = Compression::Kind;

using State = std::vector<std::byte>;

constexpr Compression kSavedPowerSgd{.kind = Kind::kPowerSgd, .start_step = 1, .rank = 2};
constexpr Compression kSavedTopK{.kind = Kind::kTopK, .fraction = 0.05};
constexpr Compression kSavedInt8{.kind = Kind::kInt8};

class CompressionState : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CompressionState,
                         ::testing::Values(kSavedPowerSgd, kSavedTopK, kSavedInt8),
                         [](const auto& test) {
                           return test.param.kind == Kind::kTopK   ? "TopK"
                                  : test.param.kind == Kind::kInt8 ? "Int8"
                                                                   : "PowerSgd";
                         });

void run_steps(GradientSync& sync, CompressedSet& set, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    set.compute(step);
    sync.exchange();
  }
}

// The states of all ranks after three steps.
std::vector<State> saved_states(int ranks, const Compression& compression) {
  std::vector<State> states(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Context& ctx) {
    CompressedSet set(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = compression});
    run_steps(sync, set, 0, 3);
    states[static_cast<std::size_t>(ctx.rank())] = sync.save_compression_state();
  });
  return states;
}

template <typename Error>
std::string load_error(GradientSync& sync, const State& state) {
  try {
    sync.load_compression_state(state);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST_P(CompressionState, ResumedJobHasSameBits) {
  for (const int ranks : {1, 3, 4}) {
    const std::vector<State> states = saved_states(ranks, GetParam());
    run_ranks(ranks, [&](Context& ctx) {
      CompressedSet whole(ctx.rank());
      CompressedSet resumed(ctx.rank());
      CompressedSet fresh(ctx.rank());
      GradientSync sync(ctx, whole.gradients(), {.compression = GetParam()});
      // States are stored by gradient, so another packing can load them.
      GradientSync later(ctx, resumed.gradients(),
                         {.bucket_bytes = 5000, .compression = GetParam()});
      GradientSync without_state(ctx, fresh.gradients(), {.compression = GetParam()});
      run_steps(sync, whole, 0, 6);
      later.load_compression_state(states[static_cast<std::size_t>(ctx.rank())]);
      run_steps(later, resumed, 3, 6);
      run_steps(without_state, fresh, 3, 6);
      EXPECT_EQ(resumed.all_values(), whole.all_values());
      EXPECT_NE(fresh.all_values(), whole.all_values());
      EXPECT_EQ(later.save_compression_state(), sync.save_compression_state());
    });
  }
}

TEST_P(CompressionState, RejectsInvalidState) {
  const std::vector<State> states = saved_states(2, GetParam());
  run_ranks(2, [&](Context& ctx) {
    const State& own = states[static_cast<std::size_t>(ctx.rank())];
    CompressedSet set(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = GetParam()});
    const State before = sync.save_compression_state();

    State cut(own.begin(), own.end() - 5);
    EXPECT_THAT(load_error<InvalidArgument>(sync, cut),
                HasSubstr("the state was saved as " + std::to_string(own.size()) + " bytes, but " +
                          std::to_string(own.size() - 5) + " were passed"));
    EXPECT_THAT(load_error<InvalidArgument>(sync, {}), HasSubstr("not a compression state"));
    State newer = own;
    newer[8] = std::byte{9};
    EXPECT_THAT(load_error<InvalidArgument>(sync, newer), HasSubstr("version 9"));
    State damaged = own;
    damaged[40] = damaged[47] = std::byte{0xff};
    EXPECT_THAT(load_error<InvalidArgument>(sync, damaged), HasSubstr("damaged"));
    EXPECT_THAT(load_error<InvalidArgument>(sync, states[1 - ctx.rank()]),
                AllOf(HasSubstr("'rank 1 of 2'"), HasSubstr("'rank 0 of 2'")));
    // An invalid state on one rank fails all ranks and changes nothing.
    EXPECT_THAT(load_error<InvalidArgument>(sync, ctx.rank() == 1 ? cut : own),
                HasSubstr("load_compression_state: rank 1"));
    EXPECT_EQ(sync.save_compression_state(), before);
    sync.load_compression_state(own);
    EXPECT_EQ(sync.save_compression_state(), own);
  });
}

TEST_P(CompressionState, RejectsOtherOptionsOrGradients) {
  const State state = saved_states(1, GetParam())[0];
  run_ranks(1, [&](Context& ctx) {
    CompressedSet set(0);
    Compression other = GetParam();
    other.rank = 3;
    other.fraction = 0.5;
    if (GetParam().kind == Kind::kInt8) other.start_step = 3;
    GradientSync with_options(ctx, set.gradients(), {.compression = other});
    EXPECT_THAT(load_error<InvalidArgument>(with_options, state),
                HasSubstr(GetParam().kind == Kind::kTopK
                              ? "'compression.fraction = 0.05' where this GradientSync has "
                                "'compression.fraction = 0.5'"
                          : GetParam().kind == Kind::kInt8
                              ? "'compression.start_step = 0' where this GradientSync has "
                                "'compression.start_step = 3'"
                              : "'compression.rank = 2' where this GradientSync has "
                                "'compression.rank = 3'"));
    GradientSync without(ctx, set.gradients(), {});
    EXPECT_THAT(load_error<InvalidArgument>(without, state),
                HasSubstr("'compression.kind = none'"));
    std::vector<NamedTensor> gradients = set.gradients();
    gradients.pop_back();
    GradientSync fewer(ctx, gradients, {.compression = GetParam()});
    EXPECT_THAT(load_error<InvalidArgument>(fewer, state),
                HasSubstr("'gradient layer6 float32 [9, 200]' where this GradientSync has nothing "
                          "more"));
    gradients = set.gradients();
    gradients[4].tensor = TensorView(gradients[4].tensor.data(), DataType::kFloat32, {32, 64});
    GradientSync reshaped(ctx, gradients, {.compression = GetParam()});
    EXPECT_THAT(load_error<InvalidArgument>(reshaped, state), HasSubstr("layer4 float32 [32, 64]"));
  });
}

TEST_P(CompressionState, RejectsStatesOfDifferentSteps) {
  run_ranks(2, [&](Context& ctx) {
    CompressedSet set(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = GetParam()});
    run_steps(sync, set, 0, 2);
    State state = sync.save_compression_state();
    run_steps(sync, set, 2, 3);
    if (ctx.rank() == 1) state = sync.save_compression_state();
    EXPECT_THAT(load_error<MismatchError>(sync, state),
                HasSubstr("the states of the ranks are from different steps or runs"));
    run_steps(sync, set, 3, 4);
  });
}

TEST(CompressionStateUse, IsAllowedBetweenStepsOnly) {
  run_ranks(1, [](Context& ctx) {
    CompressedSet set(0);
    GradientSync sync(ctx, set.gradients(), {});
    const State state = sync.save_compression_state();
    sync.load_compression_state(state);
    sync.ready(2);
    EXPECT_THROW(sync.save_compression_state(), InvalidArgument);
    EXPECT_THAT(load_error<InvalidArgument>(sync, state), HasSubstr("call it after wait()"));
    sync.exchange();
    sync.load_compression_state(sync.save_compression_state());
  });
}

}  // namespace
}  // namespace horo
