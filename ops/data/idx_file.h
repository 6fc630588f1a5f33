#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// The content of an IDX file of unsigned bytes, the format of the MNIST files.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> values;  ///< row-major, shape.count() of them
};

/// Reads an IDX file, plain or gzip. `dimension_count`: what the file must have (images 3, labels
/// 1). Throws InvalidArgument, one line that names the file, what is wrong and what to do: it
/// cannot be read, is not an IDX file of bytes, has another number of dimensions, or has fewer or
/// more bytes than its header says.
IdxArray read_idx(const std::filesystem::path& path, std::size_t dimension_count);

}  // namespace horo::ops
