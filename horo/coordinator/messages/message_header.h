#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"

namespace horo::coordinator {

/// The side of a rank in a message: send() or recv().
enum class Side : std::uint8_t { kSend, kReceive };
inline constexpr int kSideCount = 2;
constexpr Side other_side(Side side) { return side == Side::kSend ? Side::kReceive : Side::kSend; }
/// The function of Context that a rank of this side calls: "send()" or "recv()".
constexpr const char* call_of(Side side) { return side == Side::kSend ? "send()" : "recv()"; }

/// The description of one call of send() or recv(). Each of the two ranks sends its own to the
/// other.
struct MessageHeader {
  std::string name;
  Side side = Side::kSend;
  DataType type = DataType::kFloat32;
  Shape shape{0};
  /// Only for kReceive: the PointToPoint tag with which the sender must send the values. No other
  /// open receive of this rank from the same sender has it.
  std::int32_t tag = 0;
};

/// Tensors of at most this many bytes are sent with the header of the sender. MPI sends a header of
/// this size at once, even if the receiver does not read it yet. Larger tensors are sent when both
/// ranks have the header of the other, directly from and to the memory of the tensors.
inline constexpr std::size_t kLargestInline = 2 * 1024;

/// What a rank sends to a peer over the message channel: a header, or the notice that the rank has
/// shut down and will not send further headers.
struct Notice {
  std::optional<MessageHeader> header;  ///< empty: the rank has shut down
  std::vector<std::byte> values;        ///< of a sender, if they are at most kLargestInline bytes
};

std::vector<std::byte> encode(const MessageHeader& header, std::span<const std::byte> values);
std::vector<std::byte> encode_shutdown();
/// Throws CommunicationError if the bytes are malformed.
Notice decode_notice(std::span<const std::byte> bytes);

/// A message between two ranks of a group, as texts name it.
struct MessageRoute {
  std::string name;
  int sender = 0;
  int receiver = 0;

  /// Returns "'x' from rank 0 (host a) to rank 1 (host b)", with the process set if there is one.
  std::string describe(const Topology& topology) const;
  /// Returns the name in the flight recorder, with ranks in the job: "x (rank 0 to rank 1)".
  std::string label(const Topology& topology) const;
};

/// Returns the text of the error that both ranks throw if their headers differ in type or shape;
/// empty if they agree. Depends only on its arguments, so both ranks get the same text.
std::string mismatch_text(const MessageRoute& route, const MessageHeader& sender,
                          const MessageHeader& receiver, const Topology& topology);

}  // namespace horo::coordinator
