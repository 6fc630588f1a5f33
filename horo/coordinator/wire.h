#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// Number of an agreed request in the response cache. 0: none.
using CacheId = std::uint32_t;

/// A rank's message to rank 0: what it has newly submitted.
struct RequestMessage {
  /// How many response messages the sender has taken in (see ResponseCache).
  std::uint64_t responses_seen = 0;
  /// Requests that were agreed before, by number.
  std::vector<CacheId> cached;
  std::vector<Request> requests;
  /// Not empty: the sender cannot go on, and why.
  std::string failure;
};

/// Which exception an error becomes on every rank.
enum class ErrorKind : std::uint8_t { kNone, kMismatch, kCommunication, kShutdown };

/// What all ranks do next: one collective over the tensors `names`, or an error for them.
struct Response {
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// The tensors, in the order in which they lie in the collective: a name, or the number of a
  /// cached request.
  struct Tensor {
    CacheId cached = 0;
    std::string name;  ///< empty if `cached` is not 0
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };
  std::vector<Tensor> tensors;
  /// Allgather: the first dimension of each rank's input. Alltoall: the splits of every rank, one
  /// rank after the other.
  std::vector<std::uint64_t> rows_of;
  ErrorKind error = ErrorKind::kNone;
  std::string error_text;

  friend bool operator==(const Response&, const Response&) = default;
};

/// Rank 0's message to every rank. All ranks receive the same messages in the same order.
struct ResponseMessage {
  std::vector<Response> responses;
};

/// Bytes of a message. The format is little-endian and private to one version of horo.
std::vector<std::byte> encode(const RequestMessage& message);
std::vector<std::byte> encode(const ResponseMessage& message);
/// Throw CommunicationError if the bytes are not a whole, valid message.
RequestMessage decode_requests(std::span<const std::byte> bytes);
ResponseMessage decode_responses(std::span<const std::byte> bytes);

/// The same bytes for one request, for signatures and comparisons outside of messages.
std::vector<std::byte> encode(std::span<const Request> requests);
std::vector<Request> decode_request_list(std::span<const std::byte> bytes);

}  // namespace horo::coordinator
