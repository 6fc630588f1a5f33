#include "horo/adapters/torch/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <memory>
#include <utility>

#include "horo/base/error.h"

namespace horo::libtorch {

GradientHooks::~GradientHooks() {
  for (const std::function<void()>& remove : removals_) remove();
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)

namespace {

struct AccumulationHook : ::torch::autograd::PostAccumulateGradHook {
  explicit AccumulationHook(std::function<void()> given) : hook(std::move(given)) {}
  void operator()(const at::Tensor&) override { hook(); }
  std::function<void()> hook;
};

}  // namespace

// The hook belongs to the tensor, so it remains if the program loads other values.
void GradientHooks::add(const at::Tensor& tensor, const std::string& name,
                        std::function<void()> hook) {
  namespace impl = ::torch::autograd::impl;
  HORO_CHECK(impl::post_acc_grad_hooks(tensor) == nullptr,
             "parameter '" + name +
                 "' already has a hook for accumulated gradients; a parameter can be in one "
                 "DistributedModule at a time");
  impl::set_post_acc_grad_hooks(tensor, std::make_unique<AccumulationHook>(std::move(hook)));
  removals_.push_back([tensor] { impl::set_post_acc_grad_hooks(tensor, nullptr); });
}

#else

namespace {

struct AccumulationHook : ::torch::autograd::FunctionPostHook {
  explicit AccumulationHook(std::function<void()> given) : hook(std::move(given)) {}
  ::torch::autograd::variable_list operator()(
      const ::torch::autograd::variable_list& outputs,
      const ::torch::autograd::variable_list& /*inputs*/) override {
    hook();
    return outputs;
  }
  std::function<void()> hook;
};

}  // namespace

// Before version 2.1, only the node of autograd that adds to the gradient has such hooks. The
// tensor refers weakly to it. torch::load() makes another node, so the hooks are then lost.
void GradientHooks::add(const at::Tensor& tensor, const std::string& /*name*/,
                        std::function<void()> hook) {
  const auto node = ::torch::autograd::impl::grad_accumulator(tensor);
  const auto key = node->add_post_hook(std::make_unique<AccumulationHook>(std::move(hook)));
  removals_.push_back([node, key] { node->del_post_hook(key); });
}

#endif

}  // namespace horo::libtorch
