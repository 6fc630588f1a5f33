#include "ops/backend/cpu/onednn.h"

#include <fmt/format.h>

namespace horo::ops::cpu {

using dnnl::memory;

// Passes explicit strides, because a format tag would fix the number of dimensions.
memory::desc row_major(std::span<const std::size_t> dimensions) {
  const memory::dims dims(dimensions.begin(), dimensions.end());
  memory::dims strides(dims.size());
  memory::dim stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return memory::desc(dims, memory::data_type::f32, strides);
}

memory::desc row_major(std::initializer_list<std::size_t> dimensions) {
  return row_major(std::span(dimensions.begin(), dimensions.size()));
}

memory::desc any_layout(const memory::desc& description) {
  return memory::desc(description.dims(), memory::data_type::f32, memory::format_tag::any);
}

// Does not copy: the memory object refers to `values`, which must outlive the execution. oneDNN has
// no read-only memory, hence the cast; primitives do not write to their sources.
memory borrow(const Processor& processor, const memory::desc& description, const float* values) {
  return memory(description, processor.engine, const_cast<float*>(values));
}

void throw_onednn_failure(std::string_view operation, const dnnl::error& failure) {
  throw Error(fmt::format("{}: oneDNN failed: {}", operation, failure.what()));
}

}  // namespace horo::ops::cpu
