#pragma once

#include <cstddef>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

// What is done to each of `count` elements by itself, computed in float. T is float, Float16 or
// BFloat16. Results may be written over any input of their type. Pointers are to memory of the
// device. One launch each, nothing blocks; every array is read or written once, in words of 16
// bytes if all begin at a multiple of that.
namespace horo::ops::device_kernels {

template <typename T>
void fill(device::Stream& stream, T* y, float value, std::size_t count);
/// y = x, to the nearest.
template <typename To, typename From>
void convert(device::Stream& stream, To* y, const From* x, std::size_t count);
/// y = x * factor, and * *device_factor, from memory of the device, if that is not null.
template <typename T>
void scale(device::Stream& stream, T* y, const T* x, float factor, std::size_t count,
           const float* device_factor = nullptr);

/// y = a + b.
template <typename T>
void add(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count);
/// y = relu(a + b). relu_backward() gives the gradient by both.
template <typename T>
void add_relu(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count);

/// As cpu::relu_forward(): NaN stays.
template <typename T>
void relu_forward(device::Stream& stream, T* y, const T* x, std::size_t count);
/// dx = dy where y, the result of the forward pass, is not zero.
template <typename T>
void relu_backward(device::Stream& stream, T* dx, const T* dy, const T* y, std::size_t count);
/// dx = a + b where y, the result of a relu_forward() or add_relu(), is not zero: back through that
/// from the two gradients of where y went.
template <typename T>
void add_relu_backward(device::Stream& stream, T* dx, const T* a, const T* b, const T* y,
                       std::size_t count);

/// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: Hendrycks, Gimpel, "Gaussian error
/// linear units" (2016).
template <typename T>
void gelu_forward(device::Stream& stream, T* y, const T* x, std::size_t count);
/// dx = dy times the derivative at x, the forward pass's input.
template <typename T>
void gelu_backward(device::Stream& stream, T* dx, const T* dy, const T* x, std::size_t count);

}  // namespace horo::ops::device_kernels
