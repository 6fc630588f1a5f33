#include "ops/checkpoint/weights.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/device/host/host_device.h"
#include "ops/backend/device/device_backend.h"
#include "ops/data/random_stream.h"
#include "ops/train/step/model_state.h"
#include "tests/ops/checkpoint/checkpointed_training.h"

namespace horo::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Sequential> make_model(std::uint64_t seed, std::size_t hidden = 5) {
  auto model = make_cnn({.input = {1, 8, 8},
                         .channels = {3},
                         .kernel = 3,
                         .hidden = {hidden},
                         .classes = 3,
                         .batch_norm = true,
                         .seed = seed});
  for (Parameter* buffer : model->buffers()) {
    RandomStream random(seed);
    for (float& value : buffer->value.values()) value = random.normal();
  }
  return model;
}

std::vector<float> values_of(Layer& model) {
  std::vector<float> all;
  for (const auto& weights : {model.parameters(), model.buffers()})
    for (const Parameter* one : weights) {
      const Tensor host = model.backend().to_host(one->value);
      all.insert(all.end(), host.values().begin(), host.values().end());
    }
  return all;
}

TEST(Weights, RoundTripInAnyMemory) {
  const observe::TemporaryDirectory directory;
  const auto model = make_model(1);
  const std::vector<float> expected = values_of(*model);
  save_weights(*model, directory.file("host"));
  {
    device::HostDevice device(device::HostDevice::Options{});
    DeviceBackend backend(device, DataType::kBFloat16);
    model->move_to(backend);
    save_weights(*model, directory.file("device"));
    model->move_to(cpu_backend());
  }
  EXPECT_EQ(read_whole_file(directory.file("device")), read_whole_file(directory.file("host")));
  const auto other = make_model(2);
  EXPECT_NE(values_of(*other), expected);
  load_weights(*other, directory.file("host"));
  EXPECT_EQ(values_of(*other), expected);
}

TEST(Weights, ConvertsFloatingPointTypes) {
  const observe::TemporaryDirectory directory;
  const auto model = make_mlp({.input = {3}, .hidden = {}, .classes = 2, .seed = 1});
  Safetensors file;
  file.reset({}, {{"output.bias", DataType::kFloat64, {2}},
                  {"output.weight", DataType::kBFloat16, {2, 3}}});
  const double bias[] = {0.5, -3};
  std::ranges::copy(std::as_bytes(std::span(bias)), file.values(0).begin());
  const BFloat16 weight[] = {BFloat16(1), BFloat16(2), BFloat16(-0.25f),
                             BFloat16(4), BFloat16(5), BFloat16(6)};
  std::ranges::copy(std::as_bytes(std::span(weight)), file.values(1).begin());
  write_bytes(directory.file("f"), file.bytes());
  load_weights(*model, directory.file("f"));
  EXPECT_THAT(values_of(*model), ::testing::ElementsAre(1, 2, -0.25f, 4, 5, 6, 0.5f, -3));
}

TEST(Weights, ReadsCheckpoints) {
  const observe::TemporaryDirectory directory;
  CheckpointedTraining training{.ranks = 2};
  training.checkpoints = {.directory = directory.path()};
  const TrainReport report = training.run().reports[0];
  const auto model = make_mlp({.input = {1, BarsDataset::kSide, BarsDataset::kSide},
                               .hidden = {13},
                               .classes = BarsDataset::kSide,
                               .batch_norm = true,
                               .seed = 9});
  load_weights(*model, CheckpointDirectory(directory.path()).file_of({40, 2}, 0));
  EXPECT_EQ(fmt::format("{:016x}", hash_parameters(model->parameters())), report.param_hash);
}

TEST(Weights, NamesTheFirstDifferenceAndChangesNothing) {
  const observe::TemporaryDirectory directory;
  const auto model = make_model(1);
  const std::vector<float> before = values_of(*model);
  const auto error_of = [&](const std::string& path) {
    const std::string error = error_text([&] { load_weights(*model, path); });
    EXPECT_EQ(values_of(*model), before);
    return error;
  };
  save_weights(*make_model(2, 7), directory.file("shape"));
  EXPECT_THAT(error_of(directory.file("shape")),
              AllOf(StartsWith(directory.file("shape") + ": tensor 'fc1.weight' has the shape"),
                    HasSubstr("in the model")));
  save_weights(*make_mlp({.input = {1, 8, 8}, .classes = 3}), directory.file("names"));
  EXPECT_THAT(error_of(directory.file("names")), HasSubstr("no tensor 'conv1.weight'"));
  write_bytes(directory.file("text"), std::as_bytes(std::span("some text in a file")));
  EXPECT_THAT(error_of(directory.file("text")), HasSubstr("not a safetensors file"));
  EXPECT_THAT(error_of(directory.file("none")), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace horo::ops
