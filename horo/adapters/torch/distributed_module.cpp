#include "horo/adapters/torch/distributed_module.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "horo/adapters/torch/current_stream.h"
#include "horo/adapters/torch/gradient_hooks.h"
#include "horo/adapters/torch/gradient_slots.h"
#include "horo/adapters/torch/tensor_view.h"
#include "horo/base/error.h"
#include "horo/open_gpu.h"

namespace horo::libtorch {
namespace {

/// Tensors of a module that have elements, each once. A module may contain a tensor under several
/// names, for example if two layers share a weight.
template <typename NamedTensors>
std::vector<ModuleTensor> distinct(const NamedTensors& named) {
  std::vector<ModuleTensor> result;
  std::unordered_set<const void*> known;
  for (const auto& item : named) {
    const at::Tensor& tensor = item.value();
    if (tensor.defined() && tensor.numel() > 0 && known.insert(tensor.unsafeGetTensorImpl()).second)
      result.push_back({item.key(), tensor});
  }
  return result;
}

std::vector<ModuleTensor> trainable(const std::vector<ModuleTensor>& parameters) {
  std::vector<ModuleTensor> result;
  std::ranges::copy_if(parameters, std::back_inserter(result),
                       [](const ModuleTensor& given) { return given.tensor.requires_grad(); });
  HORO_CHECK(!result.empty(), "no parameter of the module requires a gradient");
  return result;
}

at::Device device_of(const std::vector<ModuleTensor>& parameters) {
  const ModuleTensor& first = parameters.front();
  for (const ModuleTensor& other : parameters)
    HORO_CHECK(other.tensor.device() == first.tensor.device(),
               c10::str("parameter '", first.name, "' is on the device ",
                        first.tensor.device().str(), " and parameter '", other.name, "' on ",
                        other.tensor.device().str(), "; move the module to one device"));
  return first.tensor.device();
}

/// The views by which the ranks exchange tensors: the elements in the order of their addresses.
std::vector<NamedTensor> views_of(const std::vector<ModuleTensor>& tensors, device::Device* gpu,
                                  std::string_view kind) {
  std::vector<NamedTensor> views;
  for (const ModuleTensor& given : tensors)
    views.push_back(
        {given.name, flat_view_of(given.tensor, gpu, c10::str(kind, " '", given.name, "'"))});
  return views;
}

/// Row-major tensors keep their shape, which PowerSGD and the comparison between ranks use.
std::vector<NamedTensor> views_of_slots(const std::vector<ModuleTensor>& parameters,
                                        const std::vector<at::Tensor>& slots, device::Device* gpu) {
  std::vector<NamedTensor> views;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::string what = c10::str("the gradient of '", parameters[i].name, "'");
    views.push_back({parameters[i].name, slots[i].is_contiguous()
                                             ? view_of(slots[i], gpu, what)
                                             : flat_view_of(slots[i], gpu, what)});
  }
  return views;
}

/// The options of the exchange, and the strides by which the ranks read the memory of gradients.
GradientSyncOptions checked_options(GradientSyncOptions options,
                                    const std::vector<ModuleTensor>& parameters,
                                    const std::vector<at::Tensor>& slots) {
  HORO_CHECK(options.backward_passes_per_step == 1,
             "backward_passes_per_step is not supported by a DistributedModule; use no_sync()");
  HORO_CHECK(!options.leave_as_reduced,
             "leave_as_reduced is not supported by a DistributedModule, because optimizers of "
             "libtorch read gradients in place");
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!slots[i].is_contiguous())
      options.also_agreed.push_back(
          c10::str("strides of ", parameters[i].name, " = ", slots[i].strides()));
  return options;
}

}  // namespace

struct DistributedModule::Impl {
  Impl(Context& given_context, ::torch::nn::Module& module,
       const DistributedModuleOptions& options);
  ~Impl();

  void broadcast(const std::vector<ModuleTensor>& tensors, std::string_view kind);
  bool has_gradient_in_slot(std::size_t index) const;
  void take_gradient(std::size_t index);
  void move_to_slot(std::size_t index, at::Tensor& gradient);
  void mark(std::size_t index);
  void mark_accumulated();
  void attach_unused();
  void begin_step();
  bool is_any_marked() const { return std::ranges::find(marked, 1) != marked.end(); }

  Context& context;
  const std::vector<ModuleTensor> all_parameters;
  const std::vector<ModuleTensor> buffers;
  const std::vector<ModuleTensor> parameters;  // those that require a gradient
  const at::Device device;
  const std::string name;
  std::shared_ptr<device::Device> gpu;  // null in host memory
  std::vector<at::Tensor> slots;
  GradientSync sync;
  int pause_depth = 0;
  // One byte per parameter, because autograd may call hooks of several parameters at the same time.
  std::vector<std::uint8_t> accumulated;  // has a gradient in this step
  std::vector<std::uint8_t> marked;       // is being exchanged in this step
  GradientHooks hooks;                    // destroyed first, because they use the rest
};

namespace {

std::shared_ptr<device::Device> gpu_of(Context& context, const at::Device& device,
                                       const std::vector<ModuleTensor>& parameters,
                                       const DistributedModuleOptions& options) {
  if (device.is_cpu()) return nullptr;
  std::shared_ptr<device::Device> gpu = options.gpu != nullptr ? options.gpu : open_gpu(context);
  const ModuleTensor& first = parameters.front();
  HORO_CHECK(
      gpu->owns(first.tensor.data_ptr()),
      c10::str("parameter '", first.name, "' is on the device ", device.str(),
               ", but the GPU of this rank is ", gpu->describe(), "; move the module to it"));
  return gpu;
}

}  // namespace

DistributedModule::Impl::Impl(Context& given_context, ::torch::nn::Module& module,
                              const DistributedModuleOptions& options)
    : context(given_context),
      all_parameters(distinct(module.named_parameters())),
      buffers(distinct(module.named_buffers())),
      parameters(trainable(all_parameters)),
      device(device_of(all_parameters)),
      name(options.gradients.name.empty() ? "module" : options.gradients.name),
      gpu(gpu_of(context, device, parameters, options)),
      slots(make_gradient_slots(context, parameters, gpu.get())),
      sync(context, views_of_slots(parameters, slots, gpu.get()),
           checked_options(options.gradients, parameters, slots)),
      accumulated(parameters.size()),
      marked(parameters.size()) {
  broadcast(all_parameters, "parameter");
  broadcast(buffers, "buffer");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    hooks.add(parameters[i].tensor, parameters[i].name, [this, i] { take_gradient(i); });
}

DistributedModule::Impl::~Impl() {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (has_gradient_in_slot(i)) parameters[i].tensor.mutable_grad().reset();
}

void DistributedModule::Impl::broadcast(const std::vector<ModuleTensor>& tensors,
                                        std::string_view kind) {
  if (tensors.empty()) return;
  context.broadcast_group(
      views_of(tensors, gpu.get(), kind),
      {.name = c10::str(name, ".", kind, "s"), .stream = current_stream(device)});
}

bool DistributedModule::Impl::has_gradient_in_slot(std::size_t index) const {
  const at::Tensor& gradient = parameters[index].tensor.grad();
  return gradient.defined() && gradient.layout() == at::kStrided &&
         gradient.data_ptr() == slots[index].data_ptr();
}

void DistributedModule::Impl::take_gradient(std::size_t index) {
  at::Tensor& gradient = parameters[index].tensor.mutable_grad();
  if (!gradient.defined()) return;
  HORO_CHECK(
      marked[index] == 0,
      c10::str("parameter '", parameters[index].name,
               "' got a second gradient while its first one is being exchanged; call wait() after "
               "each backward(), or run all but the last backward() of a step in no_sync()"));
  if (!has_gradient_in_slot(index)) move_to_slot(index, gradient);
  accumulated[index] = 1;
  if (pause_depth == 0) mark(index);
}

void DistributedModule::Impl::move_to_slot(std::size_t index, at::Tensor& gradient) {
  at::Tensor& slot = slots[index];
  const std::string& parameter = parameters[index].name;
  HORO_CHECK(gradient.layout() == at::kStrided,
             c10::str("the gradient of '", parameter,
                      "' is sparse; horo exchanges dense tensors (torch::nn::Embedding: "
                      "EmbeddingOptions::sparse(false))"));
  HORO_CHECK(
      !gradient.requires_grad(),
      c10::str("the gradient of '", parameter,
               "' has a graph; a DistributedModule does not support backward() with create_graph"));
  HORO_CHECK(gradient.device() == slot.device() && gradient.scalar_type() == slot.scalar_type(),
             c10::str("the gradient of '", parameter, "' is ", at::toString(gradient.scalar_type()),
                      " on ", gradient.device().str(), ", but was ",
                      at::toString(slot.scalar_type()), " on ", slot.device().str(),
                      " when the DistributedModule was made; convert and move the module before"));
  const c10::AutoGradMode no_graph(false);
  slot.copy_(gradient);
  gradient = slot;
}

void DistributedModule::Impl::mark(std::size_t index) {
  marked[index] = 1;
  if (gpu == nullptr)
    sync.ready(index);
  else
    sync.ready(index, current_stream(device));
}

// Marks the gradients that only passes in no_sync() scopes have computed. If the program has reset
// such a gradient meanwhile, the slot has no valid value.
void DistributedModule::Impl::mark_accumulated() {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (accumulated[i] != 0 && marked[i] == 0 && parameters[i].tensor.grad().defined()) mark(i);
}

// On a rank that has not computed a gradient, the slot has the result, but `.grad` may be
// undefined.
void DistributedModule::Impl::attach_unused() {
  if (sync.unused().empty()) return;
  const std::vector<std::size_t>& nowhere_used = sync.report().unused_everywhere;
  for (const std::size_t i : sync.unused())
    if (!std::ranges::binary_search(nowhere_used, i))
      parameters[i].tensor.mutable_grad() = slots[i];
}

void DistributedModule::Impl::begin_step() {
  std::ranges::fill(accumulated, std::uint8_t{0});
  std::ranges::fill(marked, std::uint8_t{0});
}

DistributedModule::DistributedModule(Context& context, ::torch::nn::Module& module,
                                     const DistributedModuleOptions& options)
    : impl_(std::make_unique<Impl>(context, module, options)) {}
DistributedModule::DistributedModule(DistributedModule&&) noexcept = default;
DistributedModule& DistributedModule::operator=(DistributedModule&&) noexcept = default;
DistributedModule::~DistributedModule() = default;

void DistributedModule::wait() {
  if (impl_->pause_depth > 0) return;
  impl_->mark_accumulated();
  if (impl_->gpu == nullptr)
    impl_->sync.wait();
  else
    impl_->sync.wait_on(current_stream(impl_->device));
  impl_->begin_step();
  impl_->attach_unused();
}

const StepReport& DistributedModule::report() { return impl_->sync.report(); }

DistributedModule::NoSync::NoSync(Impl& impl) : impl_(impl) { ++impl_.pause_depth; }
DistributedModule::NoSync::~NoSync() { --impl_.pause_depth; }

DistributedModule::NoSync DistributedModule::no_sync() {
  HORO_CHECK(!impl_->is_any_marked(),
             "no_sync() after a backward() whose gradients are being exchanged; call wait() first");
  return NoSync(*impl_);
}

int DistributedModule::join(const std::function<void()>& after_step) {
  HORO_CHECK(std::ranges::find(impl_->accumulated, 1) == impl_->accumulated.end(),
             "join() after backward() without wait(); end the step with wait() first");
  return impl_->sync.join(
      [&](const StepReport&) {
        for (std::size_t i = 0; i < impl_->slots.size(); ++i)
          impl_->parameters[i].tensor.mutable_grad() = impl_->slots[i];
        if (after_step) after_step();
      },
      current_stream(impl_->device));
}

void DistributedModule::broadcast_buffers() { impl_->broadcast(impl_->buffers, "buffer"); }

GradientSync& DistributedModule::gradient_sync() { return impl_->sync; }

}  // namespace horo::libtorch
