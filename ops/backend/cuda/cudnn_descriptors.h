#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "ops/backend/shapes.h"

// Descriptors of cuDNN. They are host objects: they need the library, but no GPU.

namespace horo::ops::cuda {

/// Returns the cuDNN type. Throws InvalidArgument for types other than these two.
cudnnDataType_t cudnn_type(DataType type);

/// Describes a batch of images.
class TensorDescription {
 public:
  TensorDescription(const ImageBatch& images, const ImageFormat& format);
  /// One value per channel, with the type of the images: a bias.
  static TensorDescription per_channel(std::size_t channels, const ImageFormat& format);

  cudnnTensorDescriptor_t get() const { return descriptor_.get(); }
  /// The values that cuDNN has stored.
  ImageBatch images() const;
  DataType type() const;

 private:
  TensorDescription();
  struct Destroy {
    void operator()(cudnnTensorDescriptor_t descriptor) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnTensorDescriptor_t>, Destroy> descriptor_;
};

/// The weights of a convolution.
class FilterDescription {
 public:
  FilterDescription(const ConvolutionShape& shape, const ImageFormat& format);
  cudnnFilterDescriptor_t get() const { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnFilterDescriptor_t descriptor) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnFilterDescriptor_t>, Destroy> descriptor_;
};

/// The window of a convolution and its precision. Sums are in float32. Products of float32 values
/// are exact, or drop 13 bits of each factor with `allow_tf32`.
class ConvolutionDescription {
 public:
  ConvolutionDescription(const Window& window, DataType type, bool allow_tf32);
  cudnnConvolutionDescriptor_t get() const { return descriptor_.get(); }
  void set_math_type(cudnnMathType_t type);
  cudnnMathType_t math_type() const;
  /// The output shape that cuDNN computes for this input. Equal to ConvolutionShape::output().
  ImageBatch output_of(const TensorDescription& input, const FilterDescription& filter) const;

 private:
  struct Destroy {
    void operator()(cudnnConvolutionDescriptor_t descriptor) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnConvolutionDescriptor_t>, Destroy> descriptor_;
};

class PoolingDescription {
 public:
  /// The largest value of each window. Of equal values, the same pixel is chosen in every run.
  static PoolingDescription largest(const Window& window);
  /// The average of each window, without the padding.
  static PoolingDescription average(const Window& window);
  /// The average of a whole plane.
  static PoolingDescription average_of_plane(std::size_t height, std::size_t width);
  cudnnPoolingDescriptor_t get() const { return descriptor_.get(); }
  ImageBatch output_of(const TensorDescription& input) const;

 private:
  PoolingDescription(cudnnPoolingMode_t mode, int height, int width, int padding, int stride_down,
                     int stride_right);
  struct Destroy {
    void operator()(cudnnPoolingDescriptor_t descriptor) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnPoolingDescriptor_t>, Destroy> descriptor_;
};

}  // namespace horo::ops::cuda
