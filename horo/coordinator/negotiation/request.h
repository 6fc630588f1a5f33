#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::coordinator {

/// The kind of a collective operation.
enum class Kind : std::uint8_t {
  kAllreduce,
  kBroadcast,
  kAllgather,
  kReduceScatter,
  kAlltoall,
  kBarrier,
  kTask,      ///< a function that every rank runs, such as the agreement on a plan
  kShutdown,  ///< the last request of a rank
  kJoin,      ///< the rank has no more data, but takes part in allreduces until all ranks join
};
inline constexpr int kKindCount = 9;
std::string_view name_of(Kind kind);
/// Returns whether the first dimension of the input may differ between ranks in operations of this
/// kind.
constexpr bool has_own_rows(Kind kind) {
  return kind == Kind::kAllgather || kind == Kind::kAlltoall;
}

/// The names of all operations of the kinds kShutdown and kJoin. A rank has at most one pending
/// operation of each of these kinds.
using observe::kShutdownName;
inline constexpr std::string_view kJoinName = "horo.join";

/// The scale factors of a reduction. Each rank multiplies its values by `before`, and then the
/// result of the reduction by `after`.
struct ScaleFactors {
  double before = 1;
  double after = 1;

  bool are_one() const { return before == 1 && after == 1; }
  /// Compares the bits of the factors. With ==, 0 would equal -0, but the results of a rank with 0
  /// and of a rank with -0 would differ.
  friend bool operator==(const ScaleFactors& a, const ScaleFactors& b) {
    return bits_equal(a.before, b.before) && bits_equal(a.after, b.after);
  }

 private:
  static bool bits_equal(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  }
};

/// One rank's description of one operation. The requests of the ranks must agree; see
/// requests_agree(). Fields that a kind does not use keep their defaults.
struct Request {
  std::string name;
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  Shape shape{0};
  /// Only for alltoall: the number of rows that this rank sends to each rank. The first dimension
  /// counts the rows.
  std::vector<std::size_t> splits = {};
  /// The tensors of a group, in order. Empty if the operation is not a group. A group does not use
  /// `type` and `shape`.
  struct Member {
    std::string name;
    DataType type = DataType::kFloat32;
    Shape shape{0};
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members = {};
  /// Only for allreduce and reduce_scatter of floating-point types. The factors apply to all
  /// tensors of a group.
  ScaleFactors scale = {};
  /// The number of the DeviceOperationQueue, or 0 if the tensors are in host memory.
  std::uint8_t device_queue = 0;

  /// Returns the size of this rank's input in bytes.
  std::size_t bytes() const;
  /// Returns the number of tensors, which is 1 except for a group.
  std::size_t tensors() const { return members.empty() ? 1 : members.size(); }
  /// Returns a text such as "allreduce (sum) of float32 [17, 18]", "allreduce (sum, prescale 0.5
  /// postscale 1) of ...", or "... on a device".
  std::string describe() const;
  friend bool operator==(const Request&, const Request&) = default;
};

/// Returns a text such as "tensor 'x': rank 0 (host a) submitted ..., rank 1 (host b) submitted
/// ...: the shapes differ". Returns an empty text if the requests agree. `first` and `second` are
/// the names of the ranks.
std::string describe_mismatch(const Request& a, const std::string& first, const Request& b,
                              const std::string& second);
/// Returns whether two ranks may submit these requests for one operation. Does not compare the
/// names. This agreement is an equivalence relation.
bool requests_agree(const Request& a, const Request& b);

}  // namespace horo::coordinator
