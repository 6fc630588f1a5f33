#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "horo/adapters/torch/torch.h"
#include "horo/testing.h"

namespace horo::libtorch {

inline constexpr std::int64_t kInputs = 5, kHidden = 7, kClasses = 3;
inline constexpr std::int64_t kSamplesPerRank = 3;

/// A model with layers of odd sizes, a buffer, and a layer that only some losses use.
struct NetImpl : ::torch::nn::Module {
  NetImpl() {
    up = register_module("up", ::torch::nn::Linear(kInputs, kHidden));
    down = register_module("down", ::torch::nn::Linear(kHidden, kClasses));
    extra = register_module("extra", ::torch::nn::Linear(kHidden, 1));
    offset = register_buffer("offset", ::torch::rand({kHidden}));
  }
  at::Tensor hidden(const at::Tensor& input) { return ::torch::tanh(up(input) + offset); }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor features = hidden(input);
    return down(features) + extra(features);
  }
  ::torch::nn::Linear up{nullptr}, down{nullptr}, extra{nullptr};
  at::Tensor offset;
};
TORCH_MODULE(Net);

/// Samples `first` to `first + count - 1` of an endless data set.
inline at::Tensor inputs_of(std::int64_t first, std::int64_t count) {
  return (::torch::arange(first * kInputs, (first + count) * kInputs).to(at::kFloat) * 0.7)
      .sin()
      .view({count, kInputs});
}
inline at::Tensor targets_of(std::int64_t first, std::int64_t count) {
  return ::torch::arange(first, first + count).remainder(kClasses);
}
inline at::Tensor loss_of(Net& net, std::int64_t first, std::int64_t count) {
  return ::torch::nn::functional::cross_entropy(net(inputs_of(first, count)),
                                                targets_of(first, count));
}
/// The loss of this rank's samples in a step, and of the samples of all ranks.
inline at::Tensor loss_of_rank(Net& net, const Context& ctx, int step) {
  return loss_of(net, (step * ctx.size() + ctx.rank()) * kSamplesPerRank, kSamplesPerRank);
}
inline at::Tensor loss_of_all(Net& net, const Context& ctx, int step) {
  return loss_of(net, step * ctx.size() * kSamplesPerRank, ctx.size() * kSamplesPerRank);
}

/// A model with the parameters and buffers of `net`, without its gradients and hooks.
inline Net copy_of(Net& net) {
  Net copy;
  const ::torch::NoGradGuard no_graph;
  const auto copy_values = [](auto to, auto from) {
    for (auto& item : to) item.value().copy_(from[item.key()]);
  };
  copy_values(copy->named_parameters(), net->named_parameters());
  copy_values(copy->named_buffers(), net->named_buffers());
  return copy;
}

inline std::string text_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

/// Fails unless both are defined and equal up to rounding.
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected,
                         const std::string& what, double tolerance = 1e-5) {
  ASSERT_TRUE(actual.defined() && expected.defined()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(
      ::torch::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance))
      << what << ": " << text_of(actual) << " differs from " << text_of(expected);
}
inline void expect_equal_gradients(::torch::nn::Module& actual, ::torch::nn::Module& expected,
                                   double tolerance = 1e-5) {
  const auto parameters = expected.named_parameters();
  for (const auto& item : actual.named_parameters())
    expect_close(item.value().grad(), parameters[item.key()].grad(), item.key(), tolerance);
}

/// Fails unless the tensors have the same bytes on all ranks.
inline void expect_same_on_all_ranks(Context& ctx, const std::vector<at::Tensor>& tensors) {
  std::vector<NamedTensor> views;
  for (const at::Tensor& tensor : tensors)
    views.push_back({"tensor" + std::to_string(views.size()), flat_view_of(tensor)});
  EXPECT_NO_THROW(ctx.check_equal(views));
}

/// Runs `function` with 1, 2, 3 and 4 ranks. Each rank computes with one thread.
inline void for_numbers_of_ranks(const std::function<void(Context&)>& function) {
  at::set_num_threads(1);
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    testing::run_ranks(ranks, function);
  }
}
inline void on_ranks(int ranks, const std::function<void(Context&)>& function) {
  at::set_num_threads(1);
  testing::run_ranks(ranks, function);
}

/// The text of the horo::Error that `function` throws.
template <typename Error = horo::Error>
std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace horo::libtorch
