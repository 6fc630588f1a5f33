#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace horo::bench {

/// Element counts of a model's gradients in forward order.
///   resnet50    161 tensors, 25,557,032 values (He et al. 2016, as torchvision lays it out)
///   bert-base   199 tensors, 109,482,240 values (Devlin et al. 2019, the encoder with its pooler)
///   gpt2        148 tensors, 124,439,808 values (Radford et al. 2019, the smallest of its models)
///   tiny1000    1000 tensors of 4 KiB
/// Throws InvalidArgument for another name.
std::vector<std::size_t> gradient_set(const std::string& model);

}  // namespace horo::bench
