#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// What only the ranks of one job know, so that nobody else takes part in their talk.
using Secret = std::array<std::uint64_t, 2>;

/// The first word of a node to the hub.
struct Hello {
  Secret secret{};
  std::int32_t node = 0;
};
/// The hub's answer: it is the one of this job.
struct Welcome {
  Secret secret{};
};
/// A node's ranks as its speaker sees them.
struct Report {
  WallTime sent = 0;       ///< by the sender's clock, as all times in it
  std::string end_reason;  ///< not empty: the node's ranks have been told to give up, and why
  std::vector<RankSnapshot> ranks;
};
/// What the hub says to every node, again and again.
struct Word {
  std::string end_reason;  ///< not empty: the job ends, and why
  bool is_last = false;    ///< the hub leaves, in good order
  bool is_paused = false;  ///< some rank has asked for patience
  bool sees_all = false;   ///< the hub sees all ranks of the job
};
using LinkMessage = std::variant<Hello, Welcome, Report, Word>;

/// The bytes of a message; texts are cut to about a thousand bytes.
std::vector<std::byte> encode(const LinkMessage& message);
/// nullopt if the bytes are not exactly one message. Any bytes may be given.
std::optional<LinkMessage> decode_link_message(std::span<const std::byte> bytes);

/// The largest message of a node with that many ranks.
std::size_t max_message_bytes(int ranks_of_node);

}  // namespace horo::observe
