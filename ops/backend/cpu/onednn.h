#pragma once

#include <cstddef>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string_view>
#include <unordered_map>

#include "horo/base/error.h"
#include "ops/backend/shapes.h"

// Private to ops/backend/cpu: what its kernels share for oneDNN.

namespace horo::ops::cpu {

/// The CPU engine of oneDNN and an in-order stream on it. Cheap; every kernel has its own, so that
/// kernels of different threads share nothing.
struct Processor {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// A dense row-major float32 array of these dimensions.
dnnl::memory::desc row_major(std::span<const std::size_t> dimensions);
dnnl::memory::desc row_major(std::initializer_list<std::size_t> dimensions);
/// Float32 images in this layout.
dnnl::memory::desc images_in(ImageLayout layout, const ImageBatch& images);
/// The same dimensions, in whatever layout the primitive prefers.
dnnl::memory::desc any_layout(const dnnl::memory::desc& description);

/// A oneDNN memory object for an array of the caller. oneDNN has no read-only memory; a primitive
/// does not write to its sources.
dnnl::memory borrow(const Processor& processor, const dnnl::memory::desc& description,
                    const float* values);

/// The attributes of every plan: horo passes the scratch memory to each execution. Scratch memory
/// of oneDNN belongs to the thread that creates the primitive, so another thread may neither
/// execute nor destroy such a primitive.
const dnnl::primitive_attr& own_scratch();

/// A primitive that any thread may create, execute and destroy, one thread at a time. Its scratch
/// memory belongs to the thread that executes it.
class Primitive {
 public:
  Primitive() = default;
  /// `plan` has the attributes own_scratch().
  explicit Primitive(const dnnl::primitive_desc_base& plan);

  using Arguments = std::unordered_map<int, dnnl::memory>;
  void execute(const Processor& on, Arguments arguments) const;

 private:
  dnnl::primitive primitive_;
  dnnl::memory::desc scratch_;
};

[[noreturn]] void throw_onednn_failure(std::string_view operation, const dnnl::error& failure);

/// Calls `function` and turns a failure of oneDNN into horo::Error that begins with `operation`.
template <typename Function>
decltype(auto) guarded(std::string_view operation, Function&& function) {
  try {
    return function();
  } catch (const dnnl::error& failure) {
    throw_onednn_failure(operation, failure);
  }
}

}  // namespace horo::ops::cpu
