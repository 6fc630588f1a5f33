#include "ops/data/pipeline/sample_pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

Tensor tensor_of(std::size_t rows, const SampleForm& form) {
  std::vector<std::size_t> dimensions = form.shape.dimensions();
  dimensions.insert(dimensions.begin(), rows);
  return Tensor(Shape(std::move(dimensions)), form.type);
}

void copy_part(const Sample& sample, std::string_view name, const std::vector<std::byte>& part,
               std::size_t bytes, std::byte* to) {
  HORO_CHECK(part.size() == bytes,
             fmt::format("sample {}: its {} has {} bytes, the form {}; give all samples one form",
                         sample.index, name, part.size(), bytes));
  std::ranges::copy(part, to);
}

}  // namespace

Pipeline<Sample> samples_of(const Dataset& dataset) {
  return Pipeline<Sample>([&dataset](std::uint64_t) {
    return [&dataset, index = std::size_t{0}]() mutable -> std::optional<Sample> {
      if (index == dataset.size()) return std::nullopt;
      Sample sample{index, std::vector<std::byte>(dataset.input().bytes()),
                    std::vector<std::byte>(dataset.target().bytes())};
      dataset.read(index++, sample.input, sample.target);
      return sample;
    };
  });
}

Batch batch_of(const std::vector<Sample>& samples, const SampleForm& input,
               const SampleForm& target) {
  Batch batch{.inputs = tensor_of(samples.size(), input),
              .targets = tensor_of(samples.size(), target),
              .samples = tensor_of(samples.size(), {.shape = {}, .type = DataType::kInt64})};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    copy_part(sample, "input", sample.input, input.bytes(), batch.inputs.raw() + i * input.bytes());
    copy_part(sample, "target", sample.target, target.bytes(),
              batch.targets.raw() + i * target.bytes());
    batch.samples.data<std::int64_t>()[i] = static_cast<std::int64_t>(sample.index);
  }
  return batch;
}

}  // namespace horo::ops
