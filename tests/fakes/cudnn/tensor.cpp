#include "tests/fakes/cudnn/tensor.h"

namespace horo::fakes::dnn {
namespace {

/// Calls function(place in memory) for each element, in the order of the extents.
template <typename Function>
void for_each_place(const Tensor& tensor, Function function) {
  const auto [n_end, c_end, h_end, w_end] = tensor.extents;
  const auto [by_n, by_c, by_h, by_w] = tensor.strides;
  for (std::int64_t n = 0; n < n_end; ++n)
    for (std::int64_t c = 0; c < c_end; ++c)
      for (std::int64_t h = 0; h < h_end; ++h)
        for (std::int64_t w = 0; w < w_end; ++w)
          function(static_cast<std::size_t>(n * by_n + c * by_c + h * by_h + w * by_w));
}

}  // namespace

Tensor Tensor::packed(cudnnDataType_t type, cudnnTensorFormat_t format, const Extents& extents) {
  const auto [n, c, h, w] = extents;
  const bool is_channels_last = format == CUDNN_TENSOR_NHWC;
  return {type, extents,
          is_channels_last ? Extents{c * h * w, 1, w * c, c} : Extents{c * h * w, h * w, w, 1}};
}

std::size_t Tensor::count() const {
  return static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]);
}

std::size_t Tensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
  return static_cast<std::size_t>(last + 1) * size_of(element());
}

std::vector<float> Tensor::load(const void* data) const {
  std::vector<float> values;
  values.reserve(count());
  for_each_place(*this,
                 [&](std::size_t at) { values.push_back(fakes::load(data, at, element())); });
  return values;
}

void Tensor::store(void* data, const std::vector<float>& values, float alpha, float beta) const {
  auto next = values.begin();
  for_each_place(*this, [&](std::size_t at) {
    const float old = beta == 0 ? 0 : beta * fakes::load(data, at, element());
    fakes::store(data, at, element(), alpha * *next++ + old);
  });
}

}  // namespace horo::fakes::dnn
