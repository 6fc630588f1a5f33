#pragma once

#include <torch/types.h>

#include <string>

/// Grey images and their classes.
struct Digits {
  at::Tensor images;   ///< float32 [samples, 1, 28, 28], mean about 0
  at::Tensor targets;  ///< int64 [samples], 0 to 9
};

/// The training samples or the test samples of MNIST: the four files of `folder`, not compressed.
/// Without a folder, samples that the program draws: one random pattern per class, with noise.
/// Equal on all ranks. Throws horo::InvalidArgument if the files cannot be read.
Digits load_digits(const std::string& folder, bool for_training);
