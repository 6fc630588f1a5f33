#pragma once

#include <cstddef>

#include "horo/base/float16.h"
#include "horo/device/stream.h"

// Operations on each of `count` elements, computed in float. T is float, Float16 or BFloat16. A
// result may overwrite any input of its type. Pointers refer to device memory. One launch each;
// does not block. Every array is read or written once, in words of 16 bytes if all arrays are
// aligned to 16 bytes.
namespace horo::ops::device_kernels {

template <typename T>
void fill(device::Stream& stream, T* y, float value, std::size_t count);
/// y = x, rounded to nearest.
template <typename To, typename From>
void convert(device::Stream& stream, To* y, const From* x, std::size_t count);
/// y = x * factor. If device_factor is not null, also multiplied by *device_factor, which is in
/// device memory.
template <typename T>
void scale(device::Stream& stream, T* y, const T* x, float factor, std::size_t count,
           const float* device_factor = nullptr);

/// y = a * x + b * y.
void combine(device::Stream& stream, float* y, float b, const float* x, float a, std::size_t count);

/// y = a + b.
template <typename T>
void add(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count);
/// y = relu(a + b). relu_backward() computes the gradient by either input.
template <typename T>
void add_relu(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count);

/// As cpu::relu_forward(): NaN is not replaced.
template <typename T>
void relu_forward(device::Stream& stream, T* y, const T* x, std::size_t count);
/// dx = dy where y, the result of the forward pass, is not zero, else 0.
template <typename T>
void relu_backward(device::Stream& stream, T* dx, const T* dy, const T* y, std::size_t count);
/// dx = a + b where y, the result of relu_forward() or add_relu(), is not zero, else 0. The
/// backward pass of a ReLU whose output had two uses with the gradients a and b.
template <typename T>
void add_relu_backward(device::Stream& stream, T* dx, const T* a, const T* b, const T* y,
                       std::size_t count);

/// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: Hendrycks, Gimpel, "Gaussian error
/// linear units" (2016).
template <typename T>
void gelu_forward(device::Stream& stream, T* y, const T* x, std::size_t count);
/// dx = dy times the derivative at x, the input of the forward pass.
template <typename T>
void gelu_backward(device::Stream& stream, T* dx, const T* dy, const T* x, std::size_t count);

}  // namespace horo::ops::device_kernels
