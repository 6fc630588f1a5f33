// The output of horo's tools is printable text for names of arbitrary bytes.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "horo/base/text/printable.h"
#include "horo/diagnosis/stragglers.h"
#include "horo/diagnosis/timeline.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "launcher/doctor/doctor_report.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/support/random_text.h"

namespace horo {
namespace {

using observe::FlightRecorder;

/// The records of one rank, with `random` names. Long names are truncated, sometimes inside a
/// character.
std::unique_ptr<FlightRecorder> record(const std::string& path, int rank, RandomText& random,
                                       std::vector<observe::OpenFlight>& open) {
  auto recorder = std::make_unique<FlightRecorder>(
      observe::FlightJob{.id = 1, .rank = rank, .size = 2, .host = random.next(60), .path = path});
  for (int i = 0; i < 8; ++i) {
    observe::FlightRecord record{};
    record.name = recorder->name(random.next(i % 2 == 0 ? 5 : 300));
    record.kind = static_cast<std::uint16_t>(recorder->name("allreduce"));
    record.submitted = observe::flight_clock();
    observe::OpenFlight flight = recorder->open(record);
    if (i < 6)
      flight.finish(observe::flight_clock());
    else
      open.push_back(std::move(flight));
  }
  if (rank == 1) recorder->fail(random.next(300));
  return recorder;
}

TEST(PrintableOutputs, RandomNamesGiveTextAndUtf8Json) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    RandomText random(seed);
    const observe::TemporaryDirectory directory;
    std::vector<std::unique_ptr<FlightRecorder>> recorders;
    std::vector<observe::OpenFlight> open;  // destroyed before its recorder
    for (int rank = 0; rank < 2; ++rank)
      recorders.push_back(
          record(directory.file(observe::flight_file_name(rank)), rank, random, open));
    const DoctorReport report = examine(directory.path(), std::chrono::nanoseconds(0));
    ASSERT_EQ(report.logs.size(), 2u);
    ASSERT_TRUE(is_clean_line(verdict_text(report))) << verdict_text(report);
    ASSERT_TRUE(is_clean_text(to_text(report))) << to_text(report);
    ASSERT_TRUE(is_clean_text(observe::describe(observe::find_stragglers(report.logs))));
    for (const std::string& json : {to_json(report), observe::timeline_json(report.logs)}) {
      ASSERT_TRUE(is_clean_text(json)) << json;
      ASSERT_TRUE(nlohmann::json::accept(json)) << json;
    }
  }
}

// Two ranks that use the same name still match as one operation.
TEST(PrintableOutputs, NamesMatchBetweenRanks) {
  const observe::TemporaryDirectory directory;
  std::vector<std::unique_ptr<FlightRecorder>> recorders;
  std::vector<observe::OpenFlight> open;
  for (int rank = 0; rank < 2; ++rank) {
    recorders.push_back(std::make_unique<FlightRecorder>(
        observe::FlightJob{.id = 1,
                           .rank = rank,
                           .size = 2,
                           .host = "h",
                           .path = directory.file(observe::flight_file_name(rank))}));
    observe::FlightRecord record{};
    record.name = recorders.back()->name("loss\nrank 1 was killed \xff");
    record.kind = static_cast<std::uint16_t>(recorders.back()->name("allreduce"));
    record.submitted = observe::flight_clock();
    if (rank == 0) open.push_back(recorders.back()->open(record));
  }
  const DoctorReport report = examine(directory.path(), std::chrono::nanoseconds(0));
  EXPECT_NE(verdict_text(report).find("'loss\\x0arank 1 was killed \\xff'"), std::string::npos)
      << verdict_text(report);
}

}  // namespace
}  // namespace horo
