#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/coordinator/negotiation/contribution.h"
#include "horo/coordinator/negotiation/readiness_table.h"
#include "horo/coordinator/negotiation/request.h"

namespace horo::coordinator {

/// The message of a rank to its parent in the control tree. Contains the changes in the rank's
/// subtree since the last message.
struct RequestMessage {
  /// The number of response messages that the sender has received.
  std::uint64_t responses_seen = 0;
  /// The numbers of cached operations that all ranks of the subtree have submitted.
  std::vector<CacheId> cached;
  /// Other operations that all ranks of the subtree, except joined ranks, have submitted.
  std::vector<Contribution> contributions;
  std::vector<int> joined;                            ///< since the last message
  std::vector<RankShutdown> shutdowns;                ///< since the last message
  std::vector<UnsatisfiableOperation> unsatisfiable;  ///< since the last message
  std::vector<Waiting> waiting;                       ///< see StallWatch::changes()
  /// The reason why the sender has failed. Empty if the sender has not failed.
  std::string failure;

  /// Returns whether all fields except `responses_seen` are empty.
  bool is_empty() const;
};

/// The type of the exception with which the operation of an error response fails.
enum class ErrorKind : std::uint8_t { kNone, kMismatch, kCommunication, kShutdown };

/// The response to one operation or to several fused allreduces. Either all ranks execute these
/// operations next, or the operation fails with the error of the response.
struct Response {
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  /// The root of a broadcast. For a join, the rank that joined last.
  int root = 0;
  /// One operation of the response. Contains the name of the operation or the number of its cached
  /// request. A group is one operation.
  struct Tensor {
    CacheId cached = 0;
    std::string name;  ///< empty if `cached` is not 0
    /// The request, for absent ranks. Set if there are absent ranks and `cached` is 0.
    std::optional<Request> request = {};
    /// The local cache entry of `cached`. Not sent, because the receiver has its own entry.
    std::shared_ptr<const Agreed> agreed = {};

    /// Returns the request. The caller must ensure that `agreed` or `request` is set.
    const Request& description() const { return agreed ? agreed->request : *request; }
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };
  std::vector<Tensor> tensors;  ///< in the order of the collective
  /// See Agreed::rows_of. Not sent if is_cached().
  std::vector<std::uint64_t> rows_of;
  /// Ranks that have joined and take part with identity values, in ascending order.
  std::vector<int> absent;
  ErrorKind error = ErrorKind::kNone;
  std::string error_text;

  /// Returns whether the cache numbers of the tensors determine all other data of the response.
  bool is_cached() const;
  friend bool operator==(const Response&, const Response&) = default;
};

/// The message of rank 0 to all other ranks. Each rank passes the message to its children in the
/// control tree. All ranks receive the same messages in the same order, unless a rank fails. A rank
/// that has failed sends an error to its children; see Negotiator::spread_failure().
struct ResponseMessage {
  std::vector<Response> responses;
};

/// Encodes a message. The format has the byte order of the machine and is specific to one version
/// of horo. A response with is_cached() is encoded as the cache numbers of its tensors. Therefore
/// decode_responses() leaves kind, type, op, root and rows_of of such a response at their defaults.
/// The decoders do not set `agreed`.
std::vector<std::byte> encode(const RequestMessage& message);
std::vector<std::byte> encode(const ResponseMessage& message);
/// Decodes a message. Throws CommunicationError if the bytes are not one complete message of this
/// format.
RequestMessage decode_requests(std::span<const std::byte> bytes);
ResponseMessage decode_responses(std::span<const std::byte> bytes);

/// Encodes requests in the same format, for signatures and comparisons outside of messages.
std::vector<std::byte> encode(std::span<const Request> requests);
std::vector<Request> decode_request_list(std::span<const std::byte> bytes);

}  // namespace horo::coordinator
