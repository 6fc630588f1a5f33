#include <algorithm>
#include <cstddef>

#include "ops/backend/device/elementwise.h"
#include "ops/backend/device/fast_math.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

/// out[i] = function({in[0][i], in[1][i], ...}), in float, for kInputs arrays of In; any of them
/// may be `out` if their types are the same.
template <typename Function, typename Out, typename In, int kInputs>
struct Map {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kCount = std::max(kPerVector<Out>, kInputs > 0 ? kPerVector<In> : 1);
  static constexpr std::size_t kPerBlock = kThreads * kCount;
  static constexpr int kArrays = std::max(kInputs, 1);

  Function function;
  Out* out;
  const In* in[kArrays];
  std::size_t count;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t begin = place.block * kPerBlock;
    const std::size_t end = begin + kPerBlock < count ? begin + kPerBlock : count;
    bool aligned = device::is_vector_aligned(out);
    for (int a = 0; a < kInputs; ++a) aligned = aligned && device::is_vector_aligned(in[a]);
    for_each_piece<kCount>(begin, end, aligned, place.thread, kThreads,
                           [&](auto piece, std::size_t at) { apply(piece, at); });
  }

  static void launch(device::Stream& stream, const Map& map) {
    const auto blocks = static_cast<unsigned>((map.count + kPerBlock - 1) / kPerBlock);
    device::launch(stream, {blocks, kThreads}, map);
  }

 private:
  template <unsigned kSize>
  HORO_KERNEL void apply(Piece<kSize>, std::size_t at) const {
    float values[kArrays][kSize] = {}, result[kSize];
    for (int a = 0; a < kInputs; ++a) load_piece(values[a], in[a] + at);
    for (unsigned e = 0; e < kSize; ++e) {
      float x[kArrays];
      for (int a = 0; a < kArrays; ++a) x[a] = values[a][e];
      result[e] = function(x);
    }
    store_piece(out + at, result);
  }
};

struct Fill {
  float value;
  HORO_KERNEL float operator()(const float (&)[1]) const { return value; }
};
struct Same {
  HORO_KERNEL float operator()(const float (&x)[1]) const { return x[0]; }
};
struct Scale {
  float factor;
  HORO_KERNEL float operator()(const float (&x)[1]) const { return x[0] * factor; }
};
struct ScaleOnDevice {
  float factor;
  const float* device_factor;
  HORO_KERNEL float operator()(const float (&x)[1]) const {
    return x[0] * (factor * load_constant(device_factor));
  }
};
struct Combine {
  float b, a;
  HORO_KERNEL float operator()(const float (&y_x)[2]) const { return a * y_x[1] + b * y_x[0]; }
};
struct Add {
  HORO_KERNEL float operator()(const float (&x)[2]) const { return x[0] + x[1]; }
};
// The comparison is false for NaN, so NaN passes, as on the CPU.
HORO_KERNEL inline float relu(float x) { return x <= 0 ? 0 : x; }
struct AddRelu {
  HORO_KERNEL float operator()(const float (&x)[2]) const { return relu(x[0] + x[1]); }
};
struct Relu {
  HORO_KERNEL float operator()(const float (&x)[1]) const { return relu(x[0]); }
};
struct ReluGradient {
  HORO_KERNEL float operator()(const float (&dy_y)[2]) const { return dy_y[1] <= 0 ? 0 : dy_y[0]; }
};
struct AddReluGradient {
  HORO_KERNEL float operator()(const float (&a_b_y)[3]) const {
    return a_b_y[2] <= 0 ? 0 : a_b_y[0] + a_b_y[1];
  }
};

// Computes GELU through sigmoid(2u) = 1/2 (1 + tanh(u)), as ops/backend/cpu/elementwise.cpp does.
HORO_KERNEL inline float gelu_argument(float x) {
  return 1.5957691216057308f * (x + 0.044715f * x * x * x);
}
struct Gelu {
  HORO_KERNEL float operator()(const float (&x)[1]) const {
    return x[0] * sigmoid(gelu_argument(x[0]));
  }
};
struct GeluGradient {
  HORO_KERNEL float operator()(const float (&dy_x)[2]) const {
    const float x = dy_x[1], s = sigmoid(gelu_argument(x)), slope = s * (1 - s);
    // Far out, where x^2 may be infinite, the slope is zero.
    const float bend =
        slope == 0 ? 0 : x * slope * 1.5957691216057308f * (1 + 3 * 0.044715f * x * x);
    return dy_x[0] * (s + bend);
  }
};

template <typename T, typename Function>
void unary(device::Stream& stream, const Function& function, T* y, const T* x, std::size_t count) {
  using Kernel = Map<Function, T, T, 1>;
  Kernel::launch(stream, {function, y, {x}, count});
}
template <typename T, typename Function>
void binary(device::Stream& stream, const Function& function, T* y, const T* a, const T* b,
            std::size_t count) {
  using Kernel = Map<Function, T, T, 2>;
  Kernel::launch(stream, {function, y, {a, b}, count});
}

}  // namespace

template <typename T>
void fill(device::Stream& stream, T* y, float value, std::size_t count) {
  using Kernel = Map<Fill, T, T, 0>;
  Kernel::launch(stream, {{value}, y, {nullptr}, count});
}
template <typename To, typename From>
void convert(device::Stream& stream, To* y, const From* x, std::size_t count) {
  using Kernel = Map<Same, To, From, 1>;
  Kernel::launch(stream, {{}, y, {x}, count});
}
template <typename T>
void scale(device::Stream& stream, T* y, const T* x, float factor, std::size_t count,
           const float* device_factor) {
  if (device_factor == nullptr) return unary(stream, Scale{factor}, y, x, count);
  unary(stream, ScaleOnDevice{factor, device_factor}, y, x, count);
}
void combine(device::Stream& stream, float* y, float b, const float* x, float a,
             std::size_t count) {
  binary<float>(stream, Combine{b, a}, y, y, x, count);
}
template <typename T>
void add(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count) {
  binary(stream, Add{}, y, a, b, count);
}
template <typename T>
void add_relu(device::Stream& stream, T* y, const T* a, const T* b, std::size_t count) {
  binary(stream, AddRelu{}, y, a, b, count);
}
template <typename T>
void relu_forward(device::Stream& stream, T* y, const T* x, std::size_t count) {
  unary(stream, Relu{}, y, x, count);
}
template <typename T>
void relu_backward(device::Stream& stream, T* dx, const T* dy, const T* y, std::size_t count) {
  binary(stream, ReluGradient{}, dx, dy, y, count);
}
template <typename T>
void add_relu_backward(device::Stream& stream, T* dx, const T* a, const T* b, const T* y,
                       std::size_t count) {
  using Kernel = Map<AddReluGradient, T, T, 3>;
  Kernel::launch(stream, {{}, dx, {a, b, y}, count});
}
template <typename T>
void gelu_forward(device::Stream& stream, T* y, const T* x, std::size_t count) {
  unary(stream, Gelu{}, y, x, count);
}
template <typename T>
void gelu_backward(device::Stream& stream, T* dx, const T* dy, const T* x, std::size_t count) {
  binary(stream, GeluGradient{}, dx, dy, x, count);
}

#define HORO_INSTANTIATE(T)                                                                        \
  template void fill(device::Stream&, T*, float, std::size_t);                                     \
  template void convert(device::Stream&, T*, const float*, std::size_t);                           \
  template void convert(device::Stream&, T*, const Float16*, std::size_t);                         \
  template void convert(device::Stream&, T*, const BFloat16*, std::size_t);                        \
  template void scale(device::Stream&, T*, const T*, float, std::size_t, const float*);            \
  template void add(device::Stream&, T*, const T*, const T*, std::size_t);                         \
  template void add_relu(device::Stream&, T*, const T*, const T*, std::size_t);                    \
  template void relu_forward(device::Stream&, T*, const T*, std::size_t);                          \
  template void relu_backward(device::Stream&, T*, const T*, const T*, std::size_t);               \
  template void add_relu_backward(device::Stream&, T*, const T*, const T*, const T*, std::size_t); \
  template void gelu_forward(device::Stream&, T*, const T*, std::size_t);                          \
  template void gelu_backward(device::Stream&, T*, const T*, const T*, std::size_t);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
