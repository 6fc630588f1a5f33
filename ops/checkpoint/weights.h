#pragma once

#include <filesystem>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Writes the parameters and buffers of a model, in any memory, as a safetensors file: float32,
/// with their names. Other programs read it, such as safetensors.torch.load_file() in Python.
/// Creates or replaces the file (write_durably()). Not collective: with several ranks, call it on
/// one of them. Throws Error, with the path, if the file cannot be written.
void save_weights(Layer& model, const std::filesystem::path& path);

/// Sets the parameters and buffers of a model in host memory from a safetensors file or from part 0
/// of a checkpoint. Tensors of type float64, float16 and bfloat16 are converted. Not collective:
/// the trainer broadcasts the values of rank 0. Throws InvalidArgument, with the path and the first
/// difference, if the file has other names or shapes, and leaves the model unchanged.
void load_weights(Layer& model, const std::filesystem::path& path);

}  // namespace horo::ops
