#include "collectives/reduce/kernels.h"

#include <cstring>

#include "collectives/reduce/kernel_table.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// Below this the C library's memcpy is as good. Above it may choose `rep movsb`, which is slow for
// some processors and alignments.
constexpr std::size_t kSmallCopy = 1024;

const KernelTable& table() {
  static const KernelTable& chosen = best_kernel_table();
  return chosen;
}

// The place of a 16-bit float among those of the table.
int half_index(DataType half) {
  HORO_CHECK(half == DataType::kFloat16 || half == DataType::kBFloat16, "");
  return half == DataType::kFloat16 ? 0 : 1;
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::span<std::byte* const> outs,
            Stores stores) {
  HORO_CHECK(!sources.empty() && !outs.empty() && divisor > 0, "");
  HORO_CHECK(is_elementwise(op), "Adasum does not combine element by element");
  if (count == 0) return;
  const ReduceArguments arguments{sources.data(),
                                  sources.size(),
                                  count,
                                  divisor,
                                  outs.data(),
                                  outs.size(),
                                  stores == Stores::kStreaming};
  table().reduce[static_cast<int>(type)][static_cast<int>(op)](arguments);
}

void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::byte* out, Stores stores) {
  reduce(type, op, sources, count, divisor, std::span<std::byte* const>(&out, 1), stores);
}

void narrow(DataType half, std::byte* to, const std::byte* from, std::size_t count) {
  table().narrow[half_index(half)](to, from, count);
}

void widen(DataType half, std::byte* to, const std::byte* from, std::size_t count) {
  table().widen[half_index(half)](to, from, count);
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) {
  if (bytes == 0) return;
  if (stores == Stores::kStreaming)
    table().streaming_copy(to, from, bytes);
  else if (bytes < kSmallCopy)
    std::memcpy(to, from, bytes);
  else
    table().plain_copy(to, from, bytes);
}

void fence(Stores stores) {
  if (stores == Stores::kStreaming) table().fence();
}

const char* kernel_instruction_set() { return table().instruction_set; }

}  // namespace horo::collectives
