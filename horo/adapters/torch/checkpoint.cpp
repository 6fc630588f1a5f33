#include "horo/adapters/torch/checkpoint.h"

#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/system/durable_file.h"

namespace horo::libtorch {
namespace {

using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

constexpr const char* kModule = "module";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kStep = "step";

std::vector<std::byte> bytes_of(OutputArchive& archive) {
  std::vector<std::byte> bytes;
  archive.save_to([&bytes](const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
    return size;
  });
  return bytes;
}

InputArchive archive_of(std::span<const std::byte> bytes) {
  InputArchive archive;
  archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return archive;
}

/// The first line of an error of libtorch, whose full text has a backtrace.
std::string first_line(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

/// Runs `work` on rank 0, and distributes its bytes. If `work` throws, all ranks throw Error.
std::vector<std::byte> on_rank_0(Context& context, const std::string& name,
                                 const std::function<std::vector<std::byte>()>& work) {
  const TraceScope pause = context.pause(name);
  constexpr std::byte kFailed{0}, kDone{1};
  std::vector<std::byte> message;
  if (context.rank() == 0) {
    try {
      message = work();
      message.push_back(kDone);
    } catch (const std::exception& error) {
      const std::string text = first_line(error);
      const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
      message.assign(begin, begin + text.size());
      message.push_back(kFailed);
    }
  }
  context.broadcast_object(message, {.name = name});
  const std::byte outcome = message.back();
  message.pop_back();
  if (outcome == kFailed)
    throw Error(std::string(reinterpret_cast<const char*>(message.data()), message.size()));
  return message;
}

/// A tensor of a module and its value in a checkpoint.
struct LoadedTensor {
  at::Tensor tensor;
  at::Tensor value;
};

// As torch::nn::Module::load(), but compares the shapes, and changes nothing yet.
void read_module(InputArchive& archive, const ::torch::nn::Module& module,
                 const std::string& prefix, std::vector<LoadedTensor>& loaded) {
  const auto read = [&](const auto& named, bool is_buffer) {
    for (const auto& item : named) {
      if (!item.value().defined()) continue;
      at::Tensor value;
      if (!archive.try_read(item.key(), value, is_buffer))
        throw InvalidArgument(c10::str("it has no '", prefix, item.key(), "'"));
      if (value.sizes() != item.value().sizes())
        throw InvalidArgument(c10::str("'", prefix, item.key(), "' has the shape ", value.sizes(),
                                       ", but in the module ", item.value().sizes()));
      loaded.push_back({item.value(), value});
    }
  };
  read(module.named_parameters(/*recurse=*/false), false);
  read(module.named_buffers(/*recurse=*/false), true);
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    InputArchive of_child;
    if (!archive.try_read(child.key(), of_child))
      throw InvalidArgument(c10::str("it has no '", prefix, child.key(), "'"));
    read_module(of_child, *child.value(), prefix + child.key() + ".", loaded);
  }
}

/// Copies the values in place, so that the memory and the hooks of the parameters remain.
void load_module(InputArchive& archive, const ::torch::nn::Module& module) {
  std::vector<LoadedTensor> loaded;
  read_module(archive, module, "", loaded);
  const c10::AutoGradMode no_graph(false);
  for (const LoadedTensor& item : loaded) at::Tensor(item.tensor).copy_(item.value);
}

// In older versions of libtorch, Optimizer::load() restores only the state, not the options such as
// the learning rate.
void load_optimizer(InputArchive& archive, ::torch::optim::Optimizer& optimizer) {
  optimizer.load(archive);
  InputArchive groups;
  if (!archive.try_read("param_groups", groups)) return;  // the optimizer has another format
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    InputArchive group, options;
    if (groups.try_read("param_groups/" + std::to_string(i), group) &&
        group.try_read("options", options))
      optimizer.param_groups()[i].options().serialize(options);
  }
}

std::int64_t load(const std::vector<std::byte>& bytes, const ::torch::nn::Module& module,
                  ::torch::optim::Optimizer* optimizer) {
  InputArchive archive = archive_of(bytes);
  InputArchive of_module;
  archive.read(kModule, of_module);
  load_module(of_module, module);
  if (optimizer != nullptr) {
    InputArchive of_optimizer;
    if (!archive.try_read(kOptimizer, of_optimizer))
      throw InvalidArgument("it was saved without an optimizer");
    load_optimizer(of_optimizer, *optimizer);
  }
  c10::IValue step;
  archive.read(kStep, step);
  return step.toInt();
}

}  // namespace

void save_checkpoint(Context& context, const std::filesystem::path& path,
                     const ::torch::nn::Module& module, const ::torch::optim::Optimizer* optimizer,
                     std::int64_t step) {
  on_rank_0(context, "save_checkpoint", [&]() -> std::vector<std::byte> {
    OutputArchive archive;
    OutputArchive of_module(archive.compilation_unit());
    module.save(of_module);
    archive.write(kModule, of_module);
    if (optimizer != nullptr) {
      OutputArchive of_optimizer(archive.compilation_unit());
      optimizer->save(of_optimizer);
      archive.write(kOptimizer, of_optimizer);
    }
    archive.write(kStep, c10::IValue(step));
    write_durably(path, bytes_of(archive));
    return {};
  });
}

// All ranks have the same bytes. A rank on which they do not fit fails alone only if the ranks have
// different modules.
std::int64_t load_checkpoint(Context& context, const std::filesystem::path& path,
                             ::torch::nn::Module& module, ::torch::optim::Optimizer* optimizer) {
  const std::vector<std::byte> bytes =
      on_rank_0(context, "load_checkpoint", [&] { return read_whole_file(path); });
  try {
    return load(bytes, module, optimizer);
  } catch (const std::exception& error) {
    throw Error(c10::str("cannot load the checkpoint ", path.string(), ": ", first_line(error)));
  }
}

void broadcast_optimizer(Context& context, ::torch::optim::Optimizer& optimizer) {
  const std::vector<std::byte> bytes = on_rank_0(context, "broadcast_optimizer", [&] {
    OutputArchive archive;
    optimizer.save(archive);
    return bytes_of(archive);
  });
  if (context.rank() == 0) return;
  InputArchive archive = archive_of(bytes);
  load_optimizer(archive, optimizer);
}

}  // namespace horo::libtorch
