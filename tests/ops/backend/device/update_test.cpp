#include "ops/backend/device/update/update.h"

#include <gmock/gmock.h>

#include <cmath>
#include <deque>

#include "horo/base/error.h"
#include "ops/backend/device/update/tensor_table.h"
#include "ops/nn/initialise.h"
#include "tests/ops/backend/device/device_values.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops::device_kernels {
namespace {

constexpr std::size_t kSizes[] = {1, 0, 127, 8191, 8192, 8193, 3, 2 * 8192 + 13, 16};

struct NoCopies {};

// A model on the device and the same on the host, whose optimiser is the reference.
template <typename Gradient, typename Copy>
class Model {
 public:
  static constexpr bool kHasCopy = !std::is_same_v<Copy, NoCopies>;
  using Copied = std::conditional_t<kHasCopy, Copy, float>;

  explicit Model(std::span<const std::size_t> sizes, std::size_t skip) {
    std::uint32_t seed = 0;
    for (const std::size_t size : sizes) {
      auto& host = host_.emplace_back(make_parameter("p", {size}));
      assign(host.value, varied_values(size, ++seed));
      value_.emplace_back(device_.device, values_of(host.value), skip);
      for (auto& state : state_)
        state.emplace_back(device_.device, std::vector<float>(size, 0.0f), skip);
      gradient_.emplace_back(device_.device, std::vector<float>(size, 0.0f), skip);
      copy_.emplace_back(device_.device, std::vector<float>(size, 5.0f), skip);
    }
  }
  std::vector<Parameter*> parameters() {
    std::vector<Parameter*> all;
    for (Parameter& parameter : host_) all.push_back(&parameter);
    return all;
  }
  // The host's gradients are the device's times `scale`.
  void draw_gradients(std::uint32_t step, float scale) {
    for (std::size_t t = 0; t < host_.size(); ++t) {
      auto values = rounded<Gradient>(
          varied_values(host_[t].value.count(), 1000 * step + static_cast<std::uint32_t>(t)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        gradient_[t].data()[i] = static_cast<Gradient>(values[i]);
        values[i] *= scale;
      }
      assign(host_[t].gradient, values);
    }
  }
  std::vector<SgdTensor> for_sgd(bool has_momentum) {
    std::vector<SgdTensor> tensors;
    for (std::size_t t = 0; t < host_.size(); ++t)
      tensors.push_back({value_[t].data(), has_momentum ? state_[0][t].data() : nullptr,
                         gradient_[t].data(), kHasCopy ? copy_[t].data() : nullptr,
                         value_[t].count()});
    return tensors;
  }
  std::vector<AdamWTensor> for_adamw() {
    std::vector<AdamWTensor> tensors;
    for (std::size_t t = 0; t < host_.size(); ++t)
      tensors.push_back({value_[t].data(), state_[0][t].data(), state_[1][t].data(),
                         gradient_[t].data(), kHasCopy ? copy_[t].data() : nullptr,
                         value_[t].count()});
    return tensors;
  }
  UpdateTypes types() const {
    return {data_type_of<Gradient>, kHasCopy ? data_type_of<Copied> : DataType::kFloat32};
  }
  void expect_values_of_host() {
    for (std::size_t t = 0; t < host_.size(); ++t) {
      SCOPED_TRACE("tensor " + std::to_string(t));
      expect_close(value_[t].values(), in_double(host_[t].value.values()), 1e-5);
      if constexpr (kHasCopy)
        EXPECT_EQ(copy_[t].values(), rounded<Copied>(value_[t].values()));
      else
        EXPECT_EQ(copy_[t].values(), std::vector<float>(copy_[t].count(), 5.0f));
      for (auto* values : {&value_[t], &state_[0][t], &state_[1][t]}) values->expect_guards();
      copy_[t].expect_guards();
    }
  }
  device::Stream& stream() { return *device_.stream; }
  std::vector<float> values(std::size_t t) { return value_[t].values(); }

 private:
  TestDevice device_;
  std::deque<Parameter> host_;
  std::deque<DeviceValues<float>> value_;
  std::deque<DeviceValues<float>> state_[2];
  std::deque<DeviceValues<Gradient>> gradient_;
  std::deque<DeviceValues<Copied>> copy_;
};

template <typename Gradient, typename Copy>
void check_sgd(const SgdOptions& options) {
  for (const std::size_t skip : {0, 1}) {
    Model<Gradient, Copy> model(kSizes, skip);
    Sgd sgd(model.parameters(), options);
    for (std::uint32_t step = 1; step <= 3; ++step) {
      model.draw_gradients(step, 0.25f);
      sgd.step();
      update_sgd(model.stream(), model.for_sgd(options.momentum > 0), model.types(), options,
                 {.scale = 0.25f});
      model.stream().synchronize();
    }
    model.expect_values_of_host();
  }
}

TEST(UpdateSgd, MatchesSgd) {
  check_sgd<float, NoCopies>({.learning_rate = 0.1f, .weight_decay = 0.2f});
  check_sgd<float, NoCopies>({.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f});
  check_sgd<float, NoCopies>(
      {.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f, .nesterov = true});
}

TEST(UpdateSgd, ReadsNarrowGradientsAndWritesNarrowCopies) {
  check_sgd<BFloat16, NoCopies>({.learning_rate = 0.1f, .momentum = 0.9f});
  check_sgd<Float16, Float16>({.learning_rate = 0.1f, .momentum = 0.9f});
  check_sgd<float, BFloat16>({.learning_rate = 0.1f});
}

template <typename Gradient, typename Copy>
void check_adamw(std::span<const std::size_t> sizes, std::size_t skip) {
  const AdamWOptions options{.learning_rate = 0.02f, .epsilon = 1e-3f, .weight_decay = 0.3f};
  Model<Gradient, Copy> model(sizes, skip);
  AdamW adamw(model.parameters(), options);
  for (std::uint32_t step = 1; step <= 3; ++step) {
    model.draw_gradients(step, 0.5f);
    adamw.step();
    update_adamw(model.stream(), model.for_adamw(), model.types(), options, step, {.scale = 0.5f});
    model.stream().synchronize();
  }
  model.expect_values_of_host();
}

TEST(UpdateAdamW, MatchesAdamW) {
  for (const std::size_t skip : {0, 1}) {
    check_adamw<float, NoCopies>(kSizes, skip);
    check_adamw<float, BFloat16>(kSizes, skip);
    check_adamw<BFloat16, NoCopies>(kSizes, skip);
    check_adamw<BFloat16, BFloat16>(kSizes, skip);
    check_adamw<Float16, BFloat16>(kSizes, skip);
  }
}

TEST(UpdateAdamW, CountsOnlyStepsThatAreNotSkipped) {
  const AdamWOptions options{.learning_rate = 0.02f, .beta1 = 0.5f, .weight_decay = 0.3f};
  Model<float, BFloat16> model(kSizes, 0);
  AdamW adamw(model.parameters(), options);
  AdamWClock clock;
  std::uint32_t skip = 0;
  for (std::uint32_t step = 1; step <= 4; ++step) {
    model.draw_gradients(step, 1);
    skip = step == 2 ? 1 : 0;
    if (skip == 0) adamw.step();
    count_step(model.stream(), options, &clock, &skip);
    update_adamw(model.stream(), model.for_adamw(), model.types(), options, &clock,
                 {.skip = &skip});
    model.stream().synchronize();
  }
  EXPECT_EQ(clock.steps, 3);
  model.expect_values_of_host();
}

TEST(UpdateAdamW, UpdatesMoreTensorsThanATableHolds) {
  std::vector<std::size_t> sizes;
  for (std::size_t t = 0; t < 1500; ++t) sizes.push_back(t % 40);
  check_adamw<float, NoCopies>(sizes, 0);
  check_adamw<BFloat16, BFloat16>(sizes, 0);
}

TEST(UpdateSgd, ReadsFactorAndSkipFlagOnTheDevice) {
  Model<float, NoCopies> model(kSizes, 0);
  const SgdOptions options{.learning_rate = 1};
  Sgd sgd(model.parameters(), options);
  float factor = 0;
  std::uint32_t skip = 1;
  const auto update = [&] {
    update_sgd(model.stream(), model.for_sgd(false), model.types(), options,
               {.scale = 0.5f, .factor = &factor, .skip = &skip});
    model.stream().synchronize();
  };
  model.draw_gradients(1, 2.0f);
  update();
  model.expect_values_of_host();  // skipped
  device::submit(model.stream(), [&] {
    factor = 4;
    skip = 0;
  });
  update();
  sgd.step();
  model.expect_values_of_host();
}

TEST(Update, RefusesOtherTypesAndOptionsOutOfRange) {
  TestDevice device;
  const auto text = [&](const UpdateTypes& types) {
    return message_of<InvalidArgument>([&] { update_sgd(*device.stream, {}, types, {}); });
  };
  EXPECT_EQ(text({.gradient = DataType::kInt32}),
            "gradients of type int32; supported: float32, float16, bfloat16");
  EXPECT_EQ(text({.copy = DataType::kFloat64}),
            "copies of values of type float64; supported: float32, float16, bfloat16");
  EXPECT_THROW(update_adamw(*device.stream, {}, {}, {.beta1 = 2}, 1), InvalidArgument);
}

struct Counted {
  std::size_t count;
};

TEST(TensorTable, TilesAreFoundInTheirTensors) {
  std::vector<Counted> tensors;
  for (const std::size_t size : kSizes) tensors.push_back({size});
  tensors.push_back({0});
  std::vector<std::size_t> found(std::size(kSizes));
  for_each_table(std::span<const Counted>(tensors), [&](const auto& table) {
    for (std::uint32_t tile = 0; tile < table.tiles(); ++tile) {
      const std::uint32_t t = table.find(tile);
      const TileRange range = range_of(table, t, tile);
      EXPECT_LT(range.begin, range.end);
      found[t] += range.end - range.begin;
    }
  });
  EXPECT_THAT(found, ::testing::ElementsAre(1, 127, 8191, 8192, 8193, 3, 2 * 8192 + 13, 16, 0));
}

// The sizes of the tables for `count` tensors of one element.
std::vector<std::size_t> tables_of(std::size_t count) {
  const std::vector<Counted> tensors(count, {1});
  std::vector<std::size_t> bytes;
  std::size_t held = 0;
  for_each_table(std::span<const Counted>(tensors), [&](const auto& table) {
    bytes.push_back(sizeof table);
    held += table.tensors;
  });
  EXPECT_EQ(held, count);
  return bytes;
}

TEST(TensorTable, FewTensorsHaveAShortTable) {
  constexpr std::size_t kMostShort = TensorTable<Counted, kShortArguments>::kMaxTensors;
  constexpr std::size_t kMostLong = TensorTable<Counted>::kMaxTensors;
  constexpr std::size_t kShort = sizeof(TensorTable<Counted, kShortArguments>);
  constexpr std::size_t kLong = sizeof(TensorTable<Counted>);
  static_assert(kShort + 256 <= kShortArguments && kLong + 256 <= kLongArguments);
  EXPECT_THAT(tables_of(1), ::testing::ElementsAre(kShort));
  EXPECT_THAT(tables_of(kMostShort), ::testing::ElementsAre(kShort));
  EXPECT_THAT(tables_of(kMostShort + 1), ::testing::ElementsAre(kLong));
  EXPECT_THAT(tables_of(kMostLong), ::testing::ElementsAre(kLong));
  EXPECT_THAT(tables_of(kMostLong + 1), ::testing::ElementsAre(kLong, kLong));
}

}  // namespace
}  // namespace horo::ops::device_kernels
