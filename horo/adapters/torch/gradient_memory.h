#pragma once

#include <cstddef>
#include <memory>

#include "horo/context.h"

namespace horo::libtorch {

/// A block of memory, which exists as long as `owner`.
struct GradientMemory {
  std::shared_ptr<const void> owner;
  std::byte* data = nullptr;
};

inline constexpr std::size_t kGradientAlignment = 64;  // a cache line

/// Allocates host memory for gradients, initially zero. It is an arena, in which the ranks of a
/// node reduce in place, or ordinary memory if every node has one rank, or if a node has too little
/// shared memory, which rank 0 logs. Collective: all ranks must pass the same number of bytes.
GradientMemory allocate_gradients(Context& context, std::size_t bytes);

/// Allocates memory of `gpu` for gradients, with undefined content. Not collective.
GradientMemory allocate_gradients(device::Device& gpu, std::size_t bytes);

}  // namespace horo::libtorch
