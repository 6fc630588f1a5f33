#include "horo/coordinator/messages/message_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "horo/base/error.h"
#include "horo/coordinator/messages/message_header.h"

namespace horo::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MessageHeader header_of(const std::string& name, Side side, std::size_t rows = 3) {
  return {name, side, DataType::kFloat32, Shape{rows}, 0};
}

TEST(MessageTable, MatchesInOrderOfEachName) {
  MessageTable table;
  EXPECT_FALSE(table.add_own(1, header_of("a", Side::kSend), 1));
  EXPECT_FALSE(table.add_own(1, header_of("b", Side::kSend), 2));
  EXPECT_FALSE(table.add_own(1, header_of("a", Side::kSend), 3));
  const auto remote = [&](int peer, const std::string& name, Side side) {
    MessageTable::Remote call{header_of(name, side), {}};
    return table.add_remote(peer, call);
  };
  EXPECT_EQ(remote(1, "b", Side::kReceive), 2u);
  EXPECT_FALSE(remote(2, "a", Side::kReceive));  // another peer
  EXPECT_FALSE(remote(1, "a", Side::kSend));     // the same side
  EXPECT_EQ(remote(1, "a", Side::kReceive), 1u);
  EXPECT_EQ(remote(1, "a", Side::kReceive), 3u);
  EXPECT_FALSE(remote(1, "a", Side::kReceive));
  EXPECT_THAT(table.waiting_peers(), ElementsAre(1, 2));
}

TEST(MessageTable, KeepsRemoteCallsUntilOwnCall) {
  MessageTable table;
  for (const std::size_t rows : {5, 6}) {
    MessageTable::Remote call{header_of("a", Side::kSend, rows), {std::byte{7}}};
    EXPECT_FALSE(table.add_remote(0, call));
  }
  const auto first = table.add_own(0, header_of("a", Side::kReceive), 1);
  const auto second = table.add_own(0, header_of("a", Side::kReceive), 2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->header.shape, Shape{5});
  EXPECT_EQ(second->header.shape, Shape{6});
  EXPECT_EQ(second->values, std::vector<std::byte>{std::byte{7}});
  EXPECT_THAT(table.waiting_peers(), IsEmpty());
}

TEST(MessageTable, RemovesOwnCallsToOnePeer) {
  MessageTable table;
  table.add_own(1, header_of("a", Side::kSend), 1);
  table.add_own(2, header_of("a", Side::kSend), 2);
  table.add_own(1, header_of("b", Side::kReceive), 3);
  table.add_own(1, header_of("a", Side::kSend), 4);
  EXPECT_THAT(table.remove_own(1), ElementsAre(1, 3, 4));
  EXPECT_THAT(table.remove_own(1), IsEmpty());
  EXPECT_THAT(table.remove_own(2), ElementsAre(2));
}

// Two ranks submit the same calls in different orders and read the headers of the other with
// delays. Each rank has the table of its own; both must find the same pairs.
TEST(MessageTable, BothRanksFindTheSamePairs) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    struct Rank {
      MessageTable table;
      std::vector<std::string> calls;  // names, in the order of submission
      std::size_t submitted = 0, read = 0;
      std::map<std::uint64_t, std::size_t> pairs;  // own call, call of the other
    };
    Rank ranks[2];
    for (int k = 0; k < 12; ++k) ranks[0].calls.push_back(std::string(1, "abc"[random() % 3]));
    ranks[1].calls = ranks[0].calls;
    std::ranges::shuffle(ranks[1].calls, random);
    // The shape of a header is its position in the order of submission.
    const auto side = [](int rank) { return rank == 0 ? Side::kSend : Side::kReceive; };
    while (ranks[0].pairs.size() < 12 || ranks[1].pairs.size() < 12) {
      const int r = static_cast<int>(random() % 2);
      Rank& own = ranks[r];
      Rank& other = ranks[1 - r];
      if (random() % 2 == 0 && own.submitted < 12) {
        const std::size_t k = own.submitted++;
        if (const auto remote = own.table.add_own(1 - r, header_of(own.calls[k], side(r), k), k))
          own.pairs[k] = remote->header.shape[0];
      } else if (own.read < other.submitted) {
        const std::size_t k = own.read++;
        MessageTable::Remote call{header_of(other.calls[k], side(1 - r), k), {}};
        if (const auto number = own.table.add_remote(1 - r, call)) own.pairs[*number] = k;
      }
    }
    for (const auto& [own, other] : ranks[0].pairs) {
      EXPECT_EQ(ranks[1].pairs[other], own);
      EXPECT_EQ(ranks[0].calls[own], ranks[1].calls[other]);
    }
  }
}

TEST(MessageHeaders, RoundTripAndRejectTruncation) {
  const MessageHeader header{"x", Side::kReceive, DataType::kBFloat16, Shape{3, 0, 7}, 77};
  const std::vector<std::byte> values = {std::byte{1}, std::byte{2}};
  const std::vector<std::byte> bytes = encode(header, values);
  const Notice notice = decode_notice(bytes);
  ASSERT_TRUE(notice.header);
  EXPECT_EQ(notice.header->name, "x");
  EXPECT_EQ(notice.header->side, Side::kReceive);
  EXPECT_EQ(notice.header->type, DataType::kBFloat16);
  EXPECT_EQ(notice.header->shape, (Shape{3, 0, 7}));
  EXPECT_EQ(notice.header->tag, 77);
  EXPECT_EQ(notice.values, values);
  EXPECT_FALSE(decode_notice(encode_shutdown()).header);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_notice(std::span(bytes).first(length)), CommunicationError) << length;
}

TEST(MessageHeaders, MismatchNamesTensorRanksAndBothShapes) {
  const Topology topology = make_topology(0, {"a", "b"}, {"a", "b"});
  const MessageRoute route{"x", 1, 0};
  const MessageHeader sender{"x", Side::kSend, DataType::kFloat32, Shape{2, 3}, 0};
  MessageHeader receiver{"x", Side::kReceive, DataType::kFloat32, Shape{2, 3}, 0};
  EXPECT_EQ(mismatch_text(route, sender, receiver, topology), "");
  receiver.shape = Shape{6};
  EXPECT_EQ(mismatch_text(route, sender, receiver, topology),
            "'x' from rank 1 (host b) to rank 0 (host a): rank 1 (host b) sends float32 [2, 3], "
            "rank 0 (host a) receives float32 [6]; both must have the same type and shape");
  EXPECT_EQ(route.label(topology), "x (rank 1 to rank 0)");
}

}  // namespace
}  // namespace horo::coordinator
