#include "horo/flight_recorder/flight_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "horo/base/error.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/plan_flight.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo::observe {
namespace {

// The bytes of a file in which every table has an entry.
std::vector<std::byte> full_image() {
  FlightRecorder recorder({.id = 9, .rank = 1, .size = 3, .host = "a", .path = {}});
  PlanFlight plan(
      recorder,
      {.name = "plan", .gradients = {"w", "b"}, .bucket_of = {0, 1}, .bytes_of = {1 << 20, 4}});
  for (int i = 0; i < 40; ++i) {
    FlightRecord record{};
    record.name = recorder.name(fmt::format("t{}", i));
    recorder.open(record).finish(flight_clock());
  }
  plan.mark(1);
  return recorder.image();
}

std::string error_of(std::span<const std::byte> bytes) {
  try {
    parse_flight(bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FlightReader, RejectsOtherFiles) {
  EXPECT_EQ(error_of({}), "not a flight recorder file");
  const std::string text = "#!/bin/sh\nexit 0\n and some more text to make it longer";
  EXPECT_EQ(error_of(std::as_bytes(std::span(text))), "not a flight recorder file");
  const std::vector<std::byte> zeros(300000);
  EXPECT_EQ(error_of(zeros), "not a flight recorder file");
}

TEST(FlightReader, RejectsTruncatedFile) {
  const std::vector<std::byte> image = full_image();
  EXPECT_EQ(error_of(image), "");
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{100}, sizeof(FlightHeader) - 1})
    EXPECT_EQ(error_of(std::span(image).first(bytes)), "the header is truncated");
  for (const std::size_t bytes : {sizeof(FlightHeader), std::size_t{4096}, image.size() - 1})
    EXPECT_EQ(error_of(std::span(image).first(bytes)),
              fmt::format("truncated: {} of {} bytes", bytes, image.size()));
}

TEST(FlightReader, RejectsOtherVersionAndDamagedHeader) {
  std::vector<std::byte> image = full_image();
  auto* header = reinterpret_cast<FlightHeader*>(image.data());
  header->identity.size ^= 4;
  EXPECT_EQ(error_of(image), "damaged: the checksum of the header is wrong");
  header->identity.size ^= 4;
  EXPECT_EQ(error_of(image), "");
  header->identity.version = 7;
  EXPECT_EQ(error_of(image), "has format version 7; this hororun reads version 2");
}

TEST(FlightReader, DetectsEveryFlippedIdentityBit) {
  std::vector<std::byte> image = full_image();
  for (std::size_t i = 0; i < offsetof(FlightHeader, status); ++i) {
    image[i] ^= std::byte{1} << (i % 8);
    EXPECT_NE(error_of(image), "") << "byte " << i;
    image[i] ^= std::byte{1} << (i % 8);
  }
}

TEST(FlightReader, ToleratesFlippedBitsElsewhere) {
  const std::vector<std::byte> image = full_image();
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::byte> damaged = image;
    for (int flip = 0; flip < 64; ++flip) {
      const std::size_t slot = offsetof(FlightHeader, status) +
                               random() % (image.size() - offsetof(FlightHeader, status));
      damaged[slot] ^= std::byte{1} << random() % 8;
    }
    const FlightLog log = parse_flight(damaged);
    EXPECT_LE(log.finished_events.size(), kRingEntries);
    snapshot_of(log);
  }
}

TEST(FlightReader, SkipsIncompleteRecord) {
  std::vector<std::byte> image = full_image();
  const auto* header = reinterpret_cast<const FlightHeader*>(image.data());
  auto* ring = reinterpret_cast<FlightRecord*>(image.data() + header->identity.ring.offset);
  ring[11].sequence = 0;
  const FlightLog log = parse_flight(image);
  EXPECT_EQ(log.torn, 1u);
  EXPECT_EQ(log.finished_events.size(), 39u);
  for (const FlightEvent& event : log.finished_events) EXPECT_NE(event.name, "t11");
}

TEST(FlightReader, NamesFileInErrors) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("rank.0.flight");
  EXPECT_THROW(read_flight(path), Error);
  std::ofstream(path) << "hello";
  try {
    read_flight(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path + ": not a flight recorder file");
  }
}

TEST(FlightReader, ListsMarkedGradientsAsOpenUntilExchanged) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(
      recorder,
      {.name = "grad", .gradients = {"a", "b", "c"}, .bucket_of = {1, 0, 0}, .bytes_of = {8, 4}});
  const auto open_names = [&] {
    std::vector<std::string> names;
    for (const OpenOperation& open : snapshot_of(parse_flight(recorder.image())).open)
      names.push_back(open.name);
    return names;
  };
  EXPECT_THAT(open_names(), testing::IsEmpty());
  plan.mark(2);
  plan.mark(0);
  EXPECT_THAT(open_names(), testing::ElementsAre("grad/c", "grad/a"));
  plan.mark(1);
  plan.start(0);
  plan.finish(0, false);
  EXPECT_THAT(open_names(), testing::ElementsAre("grad/a"));
  plan.start(1);
  plan.finish(1, false);
  EXPECT_EQ(parse_flight(recorder.image()).finished, 2u);
  plan.end_step();
  EXPECT_THAT(open_names(), testing::IsEmpty());
  EXPECT_EQ(parse_flight(recorder.image()).finished, 2u);
}

}  // namespace
}  // namespace horo::observe
