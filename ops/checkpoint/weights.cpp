#include "ops/checkpoint/weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/base/system/durable_file.h"
#include "ops/checkpoint/safetensors.h"

namespace horo::ops {
namespace {

std::vector<Parameter*> weights_of(Layer& model) {
  std::vector<Parameter*> all = model.parameters();
  for (Parameter* buffer : model.buffers()) all.push_back(buffer);
  return all;
}

Tensor as_float32(const Safetensors& file, std::size_t index) {
  const Safetensors::Tensor& one = file.tensors()[index];
  Tensor result(one.shape);
  visit_type(one.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                  std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      // The values of other programs need not be aligned.
      std::vector<T> values(result.count());
      std::ranges::copy(file.values(index), std::as_writable_bytes(std::span(values)).begin());
      std::ranges::transform(values, result.data(),
                             [](T value) { return static_cast<float>(value); });
    } else {
      throw InvalidArgument(
          fmt::format("tensor '{}' has the type {}, and should have a floating "
                      "point type",
                      one.name, name_of(one.type)));
    }
  });
  return result;
}

std::vector<Tensor> read_weights(Layer& model, const Safetensors& file) {
  const std::string prefix = file.metadata("format") == "horo checkpoint" ? "model." : "";
  std::vector<Tensor> values;
  for (const Parameter* weight : weights_of(model)) {
    const std::size_t index = file.index_of(prefix + weight->name);
    HORO_CHECK(
        file.tensors()[index].shape == weight->value.shape(),
        fmt::format("tensor '{}' has the shape {}, and {} in the model", file.tensors()[index].name,
                    file.tensors()[index].shape.to_string(), weight->value.shape().to_string()));
    values.push_back(as_float32(file, index));
  }
  const auto of_model = std::ranges::count_if(
      file.tensors(), [&](const auto& one) { return one.name.starts_with(prefix); });
  HORO_CHECK(static_cast<std::size_t>(of_model) == values.size(),
             fmt::format("it has {} tensors, the model {}", of_model, values.size()));
  return values;
}

}  // namespace

void save_weights(Layer& model, const std::filesystem::path& path) {
  const std::vector<Parameter*> weights = weights_of(model);
  std::vector<Safetensors::Tensor> tensors;
  for (const Parameter* weight : weights)
    tensors.push_back({weight->name, DataType::kFloat32, weight->value.shape()});
  Safetensors file;
  file.reset({{"format", "pt"}}, std::move(tensors));  // the format that Python programs expect
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Tensor host = model.backend().to_host(weights[i]->value);
    std::ranges::copy(std::span(host.raw(), host.bytes()), file.values(i).begin());
  }
  write_durably(path, file.bytes());
}

void load_weights(Layer& model, const std::filesystem::path& path) {
  HORO_CHECK(model.backend().device_stream() == nullptr,
             "load_weights: move the model to host memory first");
  std::vector<Tensor> values;
  try {
    values = read_weights(model, Safetensors(read_whole_file(path)));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", path.string(), error.what()));
  } catch (const Error& error) {
    throw InvalidArgument(error.what());
  }
  const std::vector<Parameter*> weights = weights_of(model);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i]->value = std::move(values[i]);
}

}  // namespace horo::ops
