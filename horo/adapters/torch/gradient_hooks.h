#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace horo::libtorch {

/// Calls functions when backward() has added to the gradients of tensors. The destructor removes
/// them. Used by one thread at a time, and not while backward() runs.
class GradientHooks {
 public:
  GradientHooks() = default;
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;
  ~GradientHooks();

  /// Calls `hook` on a thread of autograd, once per backward() that reaches `tensor`. Exceptions of
  /// `hook` are thrown by backward(). Throws InvalidArgument, with `name`, if the tensor already
  /// has a hook of this kind; libtorch has room for one.
  void add(const at::Tensor& tensor, const std::string& name, std::function<void()> hook);

 private:
  std::vector<std::function<void()>> removals_;
};

}  // namespace horo::libtorch
