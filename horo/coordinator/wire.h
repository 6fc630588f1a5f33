#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/coordinator/contribution.h"
#include "horo/coordinator/negotiator.h"
#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// A rank's message to its parent in the control tree: what its subtree has newly submitted.
struct RequestMessage {
  /// How many response messages the sender has taken in (see ResponseCache).
  std::uint64_t responses_seen = 0;
  /// What was agreed before and all ranks of the subtree have submitted, by number.
  std::vector<CacheId> cached;
  /// The rest of what the subtree has submitted.
  std::vector<Contribution> contributions;
  std::vector<int> joined;            ///< ranks, newly
  std::vector<Departure> departures;  ///< new ones
  std::vector<Orphan> orphans;        ///< new ones
  std::vector<Waiting> waiting;       ///< whom the subtree waits for
  /// Not empty: the sender cannot go on, and why.
  std::string failure;

  bool is_empty() const;
};

/// Which exception an error becomes on every rank.
enum class ErrorKind : std::uint8_t { kNone, kMismatch, kCommunication, kShutdown };

/// What all ranks do next: one collective over `tensors`, or an error for them.
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
    /// For ranks that have submitted nothing; given if there are any and `cached` is 0.
    std::optional<Request> request = {};
    /// What lies behind `cached`; not sent, but looked up by who receives it.
    std::shared_ptr<const Agreed> agreed = {};

    /// What was submitted. Requires that one of the two above is there.
    const Request& description() const { return agreed ? agreed->request : *request; }
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };
  std::vector<Tensor> tensors;
  /// As in Agreed. Empty where all tensors are cached: it lies in the cache.
  std::vector<std::uint64_t> rows_of;
  /// Ranks that have joined and take part with values that change nothing. Ascending.
  std::vector<int> absent;
  ErrorKind error = ErrorKind::kNone;
  std::string error_text;

  /// Whether everything but the numbers of the tensors lies in the cache.
  bool is_cached() const;
  friend bool operator==(const Response&, const Response&) = default;
};

/// Rank 0's message to every rank, passed on down the control tree. All ranks receive the same
/// messages in the same order.
struct ResponseMessage {
  std::vector<Response> responses;
};

/// Bytes of a message. The format is little-endian and private to one version of horo. What is in
/// the cache is not in a message: kind, type, op, root and rows of a cached response come out of
/// decode_responses() as they were before Response was filled, and `agreed` of contributions is not
/// sent.
std::vector<std::byte> encode(const RequestMessage& message);
std::vector<std::byte> encode(const ResponseMessage& message);
/// Throw CommunicationError if the bytes are not a whole, valid message.
RequestMessage decode_requests(std::span<const std::byte> bytes);
ResponseMessage decode_responses(std::span<const std::byte> bytes);

/// The same bytes for one request, for signatures and comparisons outside of messages.
std::vector<std::byte> encode(std::span<const Request> requests);
std::vector<Request> decode_request_list(std::span<const std::byte> bytes);

}  // namespace horo::coordinator
