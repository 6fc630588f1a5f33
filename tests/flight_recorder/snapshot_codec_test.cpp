#include "horo/flight_recorder/snapshot_codec.h"

#include <gtest/gtest.h>

#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

TEST(SnapshotCodec, EveryFieldRoundTrips) {
  for (int seed = 0; seed < 10; ++seed) {
    const RankSnapshot snapshot = full_snapshot(seed);
    const auto decoded = decode_snapshot(encode(snapshot));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(text_of(*decoded), text_of(snapshot));
  }
}

TEST(SnapshotCodec, RejectsTruncatedOrExtendedBytes) {
  std::vector<std::byte> bytes = encode(full_snapshot(3));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_snapshot(std::span(bytes).first(length))) << length;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_snapshot(bytes));
}

TEST(SnapshotCodec, FlippedBitsNeverGiveTheSameSnapshot) {
  const std::vector<std::byte> bytes = encode(full_snapshot(3));
  const std::string original = text_of(full_snapshot(3));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto decoded = decode_snapshot(flipped);
    EXPECT_FALSE(decoded && text_of(*decoded) == original) << bit;
  }
}

TEST(SnapshotCodec, TruncatesTextsAndListsOldestFirst) {
  RankSnapshot snapshot = full_snapshot(1);
  snapshot.open.clear();
  for (int i = 0; i < 5000; ++i) {
    OpenOperation open;
    open.name = std::to_string(i) + "." + std::string(1000, 'x');
    open.kind = "allreduce";
    open.submitted = i;
    snapshot.open.push_back(open);
  }
  snapshot.open[4999].kind = "gradient";
  snapshot.unlisted = 7;
  snapshot.failure = std::string(100000, 'y');
  const auto bytes = encode(snapshot);
  EXPECT_LE(bytes.size(), kMaxSnapshotBytes);
  const auto decoded = decode_snapshot(bytes);
  ASSERT_TRUE(decoded);
  ASSERT_GE(decoded->open.size(), 100u);
  EXPECT_EQ(decoded->open[0].name.substr(0, 3), "0.x");
  EXPECT_EQ(decoded->open[99].submitted, 99);
  EXPECT_EQ(decoded->unlisted, 7 + 4999 - decoded->open.size()) << "gradients are not counted";
}

TEST(SnapshotCodec, TruncatesMeasurementsSoThatSixtyOperationsFit) {
  RankSnapshot snapshot = full_snapshot(1);
  snapshot.open.clear();
  for (int i = 0; i < 100; ++i) {
    OpenOperation open;
    open.name = std::string(200, 'x');
    open.kind = std::string(50, 'k');
    open.process_set = std::string(300, 's');
    snapshot.open.push_back(open);
    snapshot.times.phases.push_back({std::string(200, 'p'), i});
    snapshot.times.plans.push_back({std::string(200, 'p'), std::string(200, 's'), 4, 1000, {}});
    for (int step = 0; step < 100; ++step) snapshot.times.plans.back().waits.push_back(step);
  }
  snapshot.failure = std::string(100000, 'y');
  const auto decoded = decode_snapshot(encode(snapshot));
  ASSERT_TRUE(decoded);
  EXPECT_GE(decoded->open.size(), 60u);
  ASSERT_EQ(decoded->times.plans.size(), 4u);
  EXPECT_EQ(decoded->times.plans[3].waits.front(), 68) << "the latest";
  EXPECT_EQ(decoded->times.plans[3].waits.back(), 99);
  EXPECT_EQ(decoded->times.phases.size(), 10u);
}

}  // namespace
}  // namespace horo::observe
