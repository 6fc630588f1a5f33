#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/scale_factors.h"
#include "horo/observe/flight_file.h"

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
  kJoin,      ///< the rank has no more data; until all have joined it takes part in allreduces
};
inline constexpr int kKindCount = 9;
std::string_view name_of(Kind kind);
/// Whether the ranks' inputs may differ in their first dimension.
constexpr bool has_own_rows(Kind kind) {
  return kind == Kind::kAllgather || kind == Kind::kAlltoall;
}

/// The names of the last two kinds: one such operation at a time.
using observe::kShutdownName;
inline constexpr std::string_view kJoinName = "horo.join";

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
  /// A group's tensors, in their order; `type` and `shape` are then unused.
  struct Member {
    std::string name;
    DataType type = DataType::kFloat32;
    Shape shape{0};
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members = {};
  /// Allreduce and reduce_scatter of floating point; of all tensors of a group.
  ScaleFactors scale = {};
  /// 0: in host memory; otherwise the number of the DeviceLane whose device it is on.
  std::uint8_t lane = 0;

  /// Bytes of the rank's input.
  std::size_t bytes() const;
  /// Tensors: one, or those of a group.
  std::size_t tensors() const { return members.empty() ? 1 : members.size(); }
  /// "allreduce (sum) of float32 [17, 18]", "allreduce (sum, prescale 0.5 postscale 1) of ...",
  /// "... on a device"
  std::string describe() const;
  friend bool operator==(const Request&, const Request&) = default;
};

/// "tensor 'x': rank 0 (host a) submitted ..., rank 1 (host b) submitted ...: the shapes differ",
/// or empty if the two can be carried out together. `first` and `second` name the ranks.
std::string describe_mismatch(const Request& a, const std::string& first, const Request& b,
                              const std::string& second);
/// Whether the two can be carried out together. An equivalence.
bool requests_agree(const Request& a, const Request& b);

}  // namespace horo::coordinator
