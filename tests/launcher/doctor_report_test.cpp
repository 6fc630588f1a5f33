#include "launcher/doctor/doctor_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "horo/base/error.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

using observe::FlightRecorder;
using observe::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DoctorReportTest : public testing::Test {
 protected:
  std::string file_of(int rank) const { return directory_.file(observe::flight_file_name(rank)); }
  std::unique_ptr<FlightRecorder> record(int rank, int size, std::uint64_t job = 1) const {
    return std::make_unique<FlightRecorder>(observe::FlightJob{
        .id = job, .rank = rank, .size = size, .host = "h\"1", .path = file_of(rank)});
  }
  observe::OpenFlight submit(FlightRecorder& recorder, const std::string& name) const {
    observe::FlightRecord record{};
    record.name = recorder.name(name);
    record.kind = static_cast<std::uint16_t>(recorder.name("allreduce"));
    record.submitted = observe::flight_clock();
    return recorder.open(record);
  }
  DoctorReport examine_now() const {
    return examine(directory_.path(), std::chrono::nanoseconds(0));
  }

  TemporaryDirectory directory_;
};

TEST_F(DoctorReportTest, NamesBlockingRank) {
  const auto first = record(0, 2);
  const auto second = record(1, 2);
  submit(*second, "step").finish(observe::flight_clock());
  const auto open = submit(*first, "loss");
  const DoctorReport report = examine_now();
  EXPECT_EQ(report.verdict.kind, observe::Verdict::Kind::kMissing);
  EXPECT_THAT(report.verdict.blamed, ElementsAre(1));
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("a job of 2 ranks"));
  EXPECT_THAT(text, HasSubstr("never submitted 'loss'"));
  EXPECT_THAT(text, testing::ContainsRegex("\n0 +h\"1 +[0-9]+ +running +0 +- +loss, "));
  EXPECT_THAT(text, testing::ContainsRegex("\n1 +h\"1 +[0-9]+ +running +1 +step, .* ago +-\n"));
}

TEST_F(DoctorReportTest, EscapesJson) {
  const auto first = record(0, 1);
  const auto open = submit(*first, "tab\there\\");
  const std::string json = to_json(examine_now());
  EXPECT_THAT(json, HasSubstr(R"("host": "h\"1")"));
  EXPECT_THAT(json, HasSubstr(R"("name": "tab\\x09here\\")"));
  EXPECT_THAT(json, HasSubstr(R"("blamed": [0])"));
}

TEST_F(DoctorReportTest, CountsOperationsBeyondTable) {
  const auto first = record(0, 1);
  std::vector<observe::OpenFlight> open;
  for (std::size_t i = 0; i < first->layout().open.size() + 3; ++i)
    open.push_back(submit(*first, "x"));
  const DoctorReport report = examine_now();
  EXPECT_THAT(to_json(report), HasSubstr(R"("unlisted": 3})"));
  EXPECT_THAT(to_text(report), HasSubstr(fmt::format("x +{}, ", open.size() - 1)));
}

TEST_F(DoctorReportTest, NamesMissingAndUnreadableFiles) {
  const auto second = record(1, 5);
  const auto fourth = record(3, 5);
  std::ofstream(file_of(4)) << "not a flight";
  const DoctorReport report = examine_now();
  EXPECT_THAT(report.absent, ElementsAre(0, 2, 4));
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("rank.4.flight: not a flight recorder file")));
  EXPECT_THAT(to_text(report), HasSubstr("no file of ranks 0, 2 and 4 here"));
  EXPECT_THAT(to_text(report), HasSubstr("left aside: "));
}

TEST_F(DoctorReportTest, IgnoresOlderJob) {
  const auto old = record(3, 4, 1);
  const auto first = record(0, 2, 2);
  const auto second = record(1, 2, 2);
  const DoctorReport report = examine_now();
  EXPECT_EQ(report.size, 2);
  EXPECT_EQ(report.logs.size(), 2u);
  EXPECT_TRUE(report.absent.empty());
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("rank.3.flight: of another job")));
}

TEST_F(DoctorReportTest, RejectsEmptyDirectoryWithRemedy) {
  try {
    examine_now();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no readable file of a flight recorder"));
    EXPECT_THAT(error.what(), HasSubstr("HORO_FLIGHT_DIR"));
  }
}

TEST_F(DoctorReportTest, ReportsSuccessfulJob) {
  for (int rank : {0, 1}) record(rank, 2)->end();
  const DoctorReport report = examine_now();
  EXPECT_EQ(report.verdict.kind, observe::Verdict::Kind::kNone);
  EXPECT_THAT(to_text(report), HasSubstr("nothing is wrong"));
  EXPECT_THAT(to_text(report), HasSubstr(" ended "));
  EXPECT_THAT(to_text(report), Not(HasSubstr("no file of")));
}

}  // namespace
}  // namespace horo
