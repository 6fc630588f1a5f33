#include "horo/watchdog/link_message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

Report make_report() {
  return {123 * kSecond, "the end", {full_snapshot(1), full_snapshot(2), make_rank(5)}};
}

std::vector<LinkMessage> all_kinds() {
  return {Hello{{1, 2}, 7}, Welcome{{3, 4}}, make_report(),
          HubStatus{"rank 3 is dead", true, true, true}};
}

TEST(LinkMessage, EveryKindRoundTrips) {
  const auto hello = decode_link_message(encode(all_kinds()[0]));
  ASSERT_TRUE(hello && std::holds_alternative<Hello>(*hello));
  EXPECT_EQ(std::get<Hello>(*hello).secret, (Secret{1, 2}));
  EXPECT_EQ(std::get<Hello>(*hello).node, 7);
  const auto welcome = decode_link_message(encode(all_kinds()[1]));
  ASSERT_TRUE(welcome && std::holds_alternative<Welcome>(*welcome));
  EXPECT_EQ(std::get<Welcome>(*welcome).secret, (Secret{3, 4}));
  const auto report = decode_link_message(encode(all_kinds()[2]));
  ASSERT_TRUE(report && std::holds_alternative<Report>(*report));
  EXPECT_EQ(std::get<Report>(*report).sent, 123 * kSecond);
  EXPECT_EQ(std::get<Report>(*report).end_reason, "the end");
  ASSERT_EQ(std::get<Report>(*report).ranks.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(text_of(std::get<Report>(*report).ranks[i]), text_of(make_report().ranks[i]));
  const auto status = decode_link_message(encode(all_kinds()[3]));
  ASSERT_TRUE(status && std::holds_alternative<HubStatus>(*status));
  EXPECT_EQ(std::get<HubStatus>(*status).end_reason, "rank 3 is dead");
  EXPECT_TRUE(std::get<HubStatus>(*status).is_shutting_down);
  EXPECT_TRUE(std::get<HubStatus>(*status).is_paused);
  EXPECT_TRUE(std::get<HubStatus>(*status).sees_all);
}

TEST(LinkMessage, RejectsTruncatedOrExtendedBytes) {
  for (const LinkMessage& message : all_kinds()) {
    std::vector<std::byte> bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode_link_message(std::span(bytes).first(length))) << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_link_message(bytes));
  }
}

TEST(LinkMessage, FlippedBitsNeverGiveTheSameMessage) {
  for (const LinkMessage& message : all_kinds()) {
    const std::vector<std::byte> bytes = encode(message);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::vector<std::byte> flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      const auto decoded = decode_link_message(flipped);
      // A boolean stays true if any of its higher bits changes.
      if (decoded && !std::holds_alternative<HubStatus>(*decoded)) {
        EXPECT_NE(encode(*decoded), bytes);
      }
    }
  }
}

TEST(LinkMessage, RejectsRandomBytes) {
  std::mt19937 random(17);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 300);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Half of the messages have a valid beginning.
    if (round % 2 == 0 && bytes.size() > 5) {
      const auto good = encode(all_kinds()[random() % 4]);
      std::memcpy(bytes.data(), good.data(), 5);
    }
    const auto decoded = decode_link_message(bytes);
    EXPECT_FALSE(decoded && std::holds_alternative<Report>(*decoded));
  }
}

TEST(LinkMessage, ReportOfFullNodeFitsLimit) {
  Report report{1, std::string(5000, 'x'), {}};
  for (int rank = 0; rank < 8; ++rank) {
    report.ranks.push_back(full_snapshot(rank));
    for (int i = 0; i < 2000; ++i) report.ranks.back().open.push_back(report.ranks[0].open[0]);
  }
  EXPECT_LE(encode(report).size(), max_message_bytes(8));
}

// Regenerate the corpus after a change of the format.
TEST(LinkMessage, FuzzingCorpusHoldsWholeMessages) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HORO_LINK_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(decode_link_message(std::as_bytes(std::span(content)))) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 6);
}

}  // namespace
}  // namespace horo::observe
