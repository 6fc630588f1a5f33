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
  /// Number of response messages that the sender has received (see ResponseCache).
  std::uint64_t responses_seen = 0;
  /// The numbers of cached operations that all ranks of the subtree have submitted.
  std::vector<CacheId> cached;
  /// Other operations that all ranks of the subtree, except joined ranks, have submitted.
  std::vector<Contribution> contributions;
  std::vector<int> joined;                            ///< ranks that have newly joined
  std::vector<RankShutdown> shutdowns;                ///< since the last message
  std::vector<UnsatisfiableOperation> unsatisfiable;  ///< since the last message
  std::vector<Waiting> waiting;                       ///< long waits of the subtree
  /// The reason why the sender has failed. Empty if the sender has not failed.
  std::string failure;

  bool is_empty() const;
};

/// The type of the exception with which the operations of a response fail.
enum class ErrorKind : std::uint8_t { kNone, kMismatch, kCommunication, kShutdown };

/// One collective over `tensors` that all ranks execute next, or the error of these operations.
struct Response {
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// A tensor of the collective. Contains a name or the number of a cached request.
  struct Tensor {
    CacheId cached = 0;
    std::string name;  ///< empty if `cached` is not 0
    /// The request for absent ranks. Set if there are absent ranks and `cached` is 0.
    std::optional<Request> request = {};
    /// The cache entry of `cached`. Not sent, because the receiver has its own entry.
    std::shared_ptr<const Agreed> agreed = {};

    /// Returns the request. `agreed` or `request` must be set.
    const Request& description() const { return agreed ? agreed->request : *request; }
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };
  std::vector<Tensor> tensors;  ///< in the order of the collective
  /// See Agreed::rows_of. Not sent if is_cached().
  std::vector<std::uint64_t> rows_of;
  /// Ranks that have joined and take part with identity values, ascending.
  std::vector<int> absent;
  ErrorKind error = ErrorKind::kNone;
  std::string error_text;

  /// Returns whether the cache contains all data of the response except the numbers of the tensors.
  bool is_cached() const;
  friend bool operator==(const Response&, const Response&) = default;
};

/// The message of rank 0 to all ranks, passed down the control tree. All ranks receive the same
/// messages in the same order. After a failure, each rank also sends an error to its children; see
/// Negotiator::spread_failure().
struct ResponseMessage {
  std::vector<Response> responses;
};

/// Encodes a message. The format is little-endian and specific to one version of horo. Data in the
/// cache is not sent. Therefore decode_responses() leaves kind, type, op, root and rows_of of a
/// cached response at their defaults. The decoders do not set `agreed`.
std::vector<std::byte> encode(const RequestMessage& message);
std::vector<std::byte> encode(const ResponseMessage& message);
/// Decodes a message. Throws CommunicationError if the bytes are not one complete, valid message.
RequestMessage decode_requests(std::span<const std::byte> bytes);
ResponseMessage decode_responses(std::span<const std::byte> bytes);

/// Encodes requests in the same format, for signatures and comparisons outside of messages.
std::vector<std::byte> encode(std::span<const Request> requests);
std::vector<Request> decode_request_list(std::span<const std::byte> bytes);

}  // namespace horo::coordinator
