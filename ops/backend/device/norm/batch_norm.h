#pragma once

#include <cstddef>

#include "horo/device/stream.h"
#include "ops/backend/batch_norm_arrays.h"
#include "ops/backend/shapes.h"

// Batch normalisation on a device, of float32 or bfloat16 images in both layouts, fused with an
// addition and a ReLU after it. Statistics are computed in float, by Welford's method. Sums are in
// an order that depends only on the shape, so results have the same bits in every run. Images are
// accessed in words of 16 bytes if they are aligned to 16 bytes and their channels (channels last)
// or their pixels (channels first) fill whole words. Nothing blocks.
//
// Cost in passes over the images: a forward pass in training reads the input twice and writes the
// output, inference reads and writes once; a backward pass reads input and gradient (and the
// output, if there is a ReLU) twice and writes the gradients.
namespace horo::ops::device_kernels {

/// The size of `workspace` for the functions below, in bytes.
std::size_t batch_norm_workspace_bytes(const ImageBatch& images, const ImageFormat& format);

/// Normalises with the statistics of this batch. `workspace` is in device memory, aligned to 16
/// bytes. Throws InvalidArgument for other types.
void batch_norm_training(device::Stream& stream, const ImageBatch& images,
                         const ImageFormat& format, const BatchNormTraining& arrays, float epsilon,
                         void* workspace);

/// Normalises with the given statistics.
void batch_norm_inference(device::Stream& stream, const ImageBatch& images,
                          const ImageFormat& format, const BatchNormInference& arrays,
                          float epsilon);

/// Overwrites the gradients. `workspace` as in the forward pass.
void batch_norm_backward(device::Stream& stream, const ImageBatch& images,
                         const ImageFormat& format, const BatchNormBackward& arrays,
                         void* workspace);

}  // namespace horo::ops::device_kernels
