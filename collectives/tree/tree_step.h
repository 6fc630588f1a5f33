#pragma once

#include <cstddef>

#include "collectives/reduce/division.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {

/// The arithmetic of one tree allreduce. kAverage is divided as part of the last combination.
class TreeStep {
 public:
  TreeStep(DataType type, ReduceOp op, int ranks)
      : type_(type), op_(op), ranks_(static_cast<std::size_t>(ranks)) {}

  /// out[i] = lower[i] op higher[i]; `out` may be either of them.
  void combine(const std::byte* lower, const std::byte* higher, std::size_t count, bool is_last,
               std::byte* out) const {
    const std::byte* sources[] = {lower, higher};
    reduce(type_, is_last ? op_ : without_division(op_), sources, count, ranks_, out,
           Stores::kPlain);
  }
  /// The same for values `own`, to which `received` is added in the order that `is_lower` says.
  void take_in(std::byte* own, const std::byte* received, bool is_lower, std::size_t count,
               bool is_last) const {
    combine(is_lower ? own : received, is_lower ? received : own, count, is_last, own);
  }

 private:
  DataType type_;
  ReduceOp op_;
  std::size_t ranks_;
};

}  // namespace horo::collectives
