// Every optimizer gives the same values on a device as on the host.
#include <functional>
#include <memory>

#include "ops/optim/lamb.h"
#include "ops/optim/lars.h"
#include "ops/optim/muon.h"
#include "ops/optim/sgd.h"
#include "tests/ops/nn/device/network_pair.h"
#include "tests/ops/optim/trained_parameters.h"

namespace horo::ops {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>)>;

struct NamedOptimizer {
  std::string name;
  MakeOptimizer make;
};

template <typename Made, typename Options>
NamedOptimizer named(const std::string& name, const Options& options) {
  return {name, [=](std::vector<Parameter*> parameters) {
            return std::make_unique<Made>(std::move(parameters), options);
          }};
}

std::vector<NamedOptimizer> optimizers() {
  return {named<Sgd>(
              "Nesterov",
              SgdOptions{
                  .learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.2f, .nesterov = true}),
          named<AdamW>("AdamW", AdamWOptions{.learning_rate = 0.02f, .weight_decay = 0.3f}),
          named<AdamW>("Adam", AdamWOptions{.learning_rate = 0.02f,
                                            .epsilon = 1e-3f,
                                            .weight_decay = 0.3f,
                                            .coupled_decay = true}),
          named<Lars>("Lars", LarsOptions{.weight_decay = 0.2f, .trust_coefficient = 0.05f}),
          named<Lamb>("Lamb", AdamWOptions{.learning_rate = 0.02f, .epsilon = 1e-3f}),
          named<Muon>("Muon", MuonOptions{.adamw = {.learning_rate = 0.02f, .epsilon = 1e-3f}})};
}

/// Four steps, of which the device skips the third. The gradients are multiplied by a factor and
/// the learning rate changes, both in device memory.
void compare(const NamedOptimizer& one, DataType type) {
  DeviceSide side(type);
  DeviceBackend& backend = side.backend();
  TrainedParameters on_host, on_device;
  const auto host = one.make(on_host.parameters()), moved = one.make(on_device.parameters());
  for (Optimizer* optimizer : {host.get(), moved.get()})
    optimizer->set_rules(
        {{.vectors_only = true, .weight_decay = 0}, {.pattern = "tall.*", .learning_rate = 0.5f}});
  on_device.move_to(backend);
  moved->move_to(backend);
  const float base_rate = host->learning_rate();
  for (int step = 1; step <= 4; ++step) {
    const bool is_skipped = step == 3;
    const float factor = 0.5f, rate = base_rate / static_cast<float>(step);
    device::DeviceArray<std::uint32_t> skip(backend.device(), backend.stream(),
                                            {is_skipped ? 1u : 0u});
    device::DeviceArray<float> numbers(backend.device(), backend.stream(), {factor, rate});
    for (std::size_t i = 0; i < on_host.size(); ++i) {
      std::vector<float> values = TrainedParameters::gradient(on_host[i], i, step);
      for (float& value : values) value = rounded_to(type, value);
      Tensor wide = backend.from_host(tensor_of(on_host[i].value.shape(), values));
      Tensor& gradient = on_device[i].gradient;
      gradient = gradient.type() == DataType::kFloat32 ? std::move(wide)
                                                       : backend.converted(wide, gradient.type());
      for (float& value : values) value *= factor;
      assign(on_host[i].gradient, values);
    }
    moved->step(
        {.factor = numbers.data(), .skip = skip.data(), .learning_rate = numbers.data() + 1});
    backend.stream().synchronize();
    if (is_skipped) continue;
    host->set_learning_rate(rate);
    host->step();
  }
  for (std::size_t i = 0; i < on_host.size(); ++i) {
    if (on_device[i].copy.count() == 0) continue;
    const Tensor copy = backend.to_host(backend.converted(on_device[i].copy, DataType::kFloat32));
    const Tensor value = backend.to_host(on_device[i].value);
    for (std::size_t k = 0; k < copy.count(); ++k)
      EXPECT_EQ(copy.values()[k], rounded_to(type, value.values()[k]));
  }
  on_device.move_to(cpu_backend());
  moved->move_to(cpu_backend());
  for (std::size_t i = 0; i < on_host.size(); ++i) {
    SCOPED_TRACE(on_host[i].name);
    expect_close(on_device[i].value.values(), in_double(on_host[i].value.values()), 2e-5);
    for (std::size_t s = 0; s < host->states().size(); ++s) {
      const Tensor& expected = host->states()[s].tensors[i];
      EXPECT_EQ(moved->states()[s].tensors[i].shape(), expected.shape());
      expect_close(moved->states()[s].tensors[i].values(), in_double(expected.values()), 2e-5);
    }
  }
  for (std::size_t c = 0; c < host->counters().size(); ++c)
    EXPECT_EQ(moved->counters()[c], host->counters()[c]);
}

TEST(DeviceOptimizers, MatchTheHost) {
  for (const NamedOptimizer& one : optimizers())
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
      SCOPED_TRACE(one.name);
      compare(one, type);
    }
}

}  // namespace
}  // namespace horo::ops
