#include "collectives/reduce/kernels.h"

#include <fmt/format.h>

#include <cstring>

#include "collectives/reduce/kernel_table.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// Below this size, the C library's memcpy is as fast as plain_copy. For larger copies, memcpy may
// choose `rep movsb`, which is slow on some processors and alignments.
constexpr std::size_t kSmallCopy = 1024;

// The table for this CPU, chosen once per process. All tables give the same bits, except for the
// payloads of NaN, so the ranks of a job may run on different CPUs.
const KernelTable& table() {
  static const KernelTable& chosen = best_kernel_table();
  return chosen;
}

// The index of a 16-bit float type in the arrays of KernelTable.
int half_index(DataType half) {
  HORO_CHECK(half == DataType::kFloat16 || half == DataType::kBFloat16,
             fmt::format("{} is not a 16-bit floating-point type", name_of(half)));
  return half == DataType::kFloat16 ? 0 : 1;
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::span<std::byte* const> outs,
            Stores stores) {
  HORO_CHECK(!sources.empty() && !outs.empty() && divisor > 0,
             fmt::format("reduce: {} sources, {} outputs, divisor {}; each must be at least 1",
                         sources.size(), outs.size(), divisor));
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

void divide_if_average(DataType type, ReduceOp op, std::byte* data, std::size_t count, int ranks) {
  if (op != ReduceOp::kAverage) return;
  // A reduction of one source divides in place. It uses the same kernels as an average in one step,
  // and therefore rounds in the same way.
  const std::byte* source = data;
  reduce(type, op, {&source, 1}, count, static_cast<std::size_t>(ranks), data, Stores::kPlain);
}

void divide_if_average(const ScatteredBuffer& buffer, ReduceOp op, int ranks) {
  for (const ScatteredBuffer::Piece& piece : buffer.pieces())
    divide_if_average(buffer.type(), op, piece.data, piece.count, ranks);
}

}  // namespace horo::collectives
