#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <filesystem>

#include "horo/context.h"

namespace horo::libtorch {

/// Saves a training run: the parameters and buffers of `module` and the state of `optimizer` on
/// rank 0, and `step`, a number of the program's choice. `optimizer` may be null. Collective: all
/// ranks must pass the same path. Blocks until the file is on the disk of rank 0. Buffers of the
/// other ranks are not saved; see DistributedModule::broadcast_buffers().
///
/// The file is an archive of libtorch (torch::serialize::InputArchive) with "module", "optimizer"
/// and "step". If the process or the machine stops meanwhile, `path` is either the former file or
/// the new one. Throws Error on all ranks, with the path and the reason, if rank 0 cannot write it.
void save_checkpoint(Context& context, const std::filesystem::path& path,
                     const ::torch::nn::Module& module,
                     const ::torch::optim::Optimizer* optimizer = nullptr, std::int64_t step = 0);

/// Continues from a checkpoint. Rank 0 reads the file and sends it to all ranks, so only rank 0
/// needs access to it. Returns the step. `module`, and `optimizer` if it is not null, must have the
/// parameters with which the checkpoint was saved. Load the optimizer only after the module is on
/// its device. May be called before or after a DistributedModule is made. Ignores functions load()
/// of modules. Collective. Blocks.
///
/// Throws Error on all ranks, with the path and the reason, if rank 0 cannot read the file, or if
/// the file has other tensors than the module, or no optimizer. The module is then unchanged,
/// unless only the optimizer does not fit.
std::int64_t load_checkpoint(Context& context, const std::filesystem::path& path,
                             ::torch::nn::Module& module,
                             ::torch::optim::Optimizer* optimizer = nullptr);

/// Copies the options and the state of the optimizer of rank 0, such as momentum, to all ranks.
/// Useful if only rank 0 has restored an optimizer. Collective. Blocks.
void broadcast_optimizer(Context& context, ::torch::optim::Optimizer& optimizer);

}  // namespace horo::libtorch
