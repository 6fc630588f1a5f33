#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"

namespace horo::coordinator {

/// What is asked of the ranks together.
enum class Kind : std::uint8_t {
  kAllreduce,
  kBroadcast,
  kAllgather,
  kReduceScatter,
  kAlltoall,
  kBarrier,
  kTask,      ///< a function that every rank runs, such as the agreement on a plan
  kShutdown,  ///< the rank's last request
};
inline constexpr int kKindCount = 8;
std::string_view name_of(Kind kind);

/// One rank's description of one operation: what the ranks must agree on. Fields that a kind does
/// not use keep their defaults.
struct Request {
  std::string name;
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  Shape shape{0};
  /// Alltoall: rows of this rank's input (its first dimension) for each rank.
  std::vector<std::size_t> splits = {};

  /// "allreduce (sum) of float32 [17, 18]"
  std::string describe() const;
  friend bool operator==(const Request&, const Request&) = default;
};

}  // namespace horo::coordinator
