#include "ops/backend/cpu/onednn.h"

#include <fmt/format.h>

#include <vector>

namespace horo::ops::cpu {

using dnnl::memory;

namespace {

/// Scratch memory of the calling thread, of at least `bytes` bytes. Every execution of the thread
/// uses the same memory, because an execution on the CPU ends before execute() returns.
void* thread_scratch(std::size_t bytes) {
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  thread_local std::vector<CacheLine> lines;
  const std::size_t needed = (bytes + sizeof(CacheLine) - 1) / sizeof(CacheLine);
  if (lines.size() < needed) lines.resize(needed);
  return lines.data();
}

}  // namespace

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

memory::desc images_in(ImageLayout layout, const ImageBatch& images) {
  const auto dim = [](std::size_t extent) { return static_cast<memory::dim>(extent); };
  return memory::desc(
      {dim(images.batch), dim(images.channels), dim(images.height), dim(images.width)},
      memory::data_type::f32,
      layout == ImageLayout::kChannelsLast ? memory::format_tag::nhwc : memory::format_tag::nchw);
}

memory::desc any_layout(const memory::desc& description) {
  return memory::desc(description.dims(), memory::data_type::f32, memory::format_tag::any);
}

// Does not copy: the memory object refers to `values`, which must outlive the execution. oneDNN has
// no read-only memory, hence the cast; primitives do not write to their sources.
memory borrow(const Processor& processor, const memory::desc& description, const float* values) {
  return memory(description, processor.engine, const_cast<float*>(values));
}

const dnnl::primitive_attr& own_scratch() {
  static const dnnl::primitive_attr attributes = [] {
    dnnl::primitive_attr created;
    created.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return created;
  }();
  return attributes;
}

Primitive::Primitive(const dnnl::primitive_desc_base& plan)
    : primitive_(plan.get()), scratch_(plan.scratchpad_desc()) {}

void Primitive::execute(const Processor& on, Arguments arguments) const {
  if (const std::size_t bytes = scratch_.get_size(); bytes > 0)
    arguments.insert_or_assign(DNNL_ARG_SCRATCHPAD,
                               memory(scratch_, on.engine, thread_scratch(bytes)));
  primitive_.execute(on.stream, arguments);
}

void throw_onednn_failure(std::string_view operation, const dnnl::error& failure) {
  throw Error(fmt::format("{}: oneDNN failed: {}", operation, failure.what()));
}

}  // namespace horo::ops::cpu
