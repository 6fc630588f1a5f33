#include "launcher/job_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "horo/observe/flight_directory.h"
#include "horo/observe/flight_recorder.h"
#include "tests/observe/temporary_directory.h"

namespace horo {
namespace {

using observe::FlightRecorder;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class JobVerdictTest : public testing::Test {
 protected:
  std::unique_ptr<FlightRecorder> record(int rank, std::uint64_t job) const {
    return std::make_unique<FlightRecorder>(
        observe::FlightJob{.id = job,
                           .rank = rank,
                           .size = 2,
                           .host = "h",
                           .path = directory_.file(observe::flight_file_name(rank))});
  }
  JobVerdict verdict() const { return JobVerdict(directory_.path().string()); }

  observe::TemporaryDirectory directory_;
  const JobResult exit_of_rank_0_{.wait_status = 256,
                                  .failure = RankFailure{0, "", "exited with code 1"}};
};

TEST_F(JobVerdictTest, ARecordedFailureComesBeforeTheReportOfMpirun) {
  const JobVerdict verdict = this->verdict();
  const auto first = record(0, 7);
  const auto second = record(1, 7);
  second->fail("out of memory");
  const std::string text = verdict.text(exit_of_rank_0_, 1);
  EXPECT_THAT(text, StartsWith("hororun: rank 1 (host h, pid "));
  EXPECT_THAT(text, HasSubstr("failed: out of memory"));
  EXPECT_THAT(text, Not(HasSubstr("rank 0 ")));
  EXPECT_THAT(text, HasSubstr("\nhororun: more: hororun doctor "));
}

TEST_F(JobVerdictTest, WhereTheRecordsHaveNoReasonTheReportCounts) {
  const JobVerdict verdict = this->verdict();
  for (int rank : {0, 1}) record(rank, 7)->end();
  EXPECT_THAT(
      verdict.text(exit_of_rank_0_, 1),
      testing::ContainsRegex("^hororun: rank 0 .host h, pid [0-9]+. exited with code 1; its "
                             "record shows no failure\n"));
}

TEST_F(JobVerdictTest, ARankWithoutARecordIsKnownFromTheReport) {
  const JobVerdict verdict = this->verdict();
  const auto first = record(0, 7);
  const JobResult result{.failure = RankFailure{1, "b", "was killed by signal 9 (Killed)"}};
  EXPECT_THAT(verdict.text(result, 137),
              StartsWith("hororun: rank 1 (host b) was killed by signal 9 (Killed)"));
}

TEST_F(JobVerdictTest, AnOlderJobOfTheDirectoryDoesNotCount) {
  for (int rank : {0, 1}) record(rank, 7)->fail("of another job");
  const JobVerdict verdict = this->verdict();
  EXPECT_EQ(verdict.text(exit_of_rank_0_, 1),
            "hororun: rank 0 exited with code 1; no rank left a flight record, so look at its "
            "output above\n");
  record(1, 8)->fail("of this job");
  EXPECT_THAT(verdict.text(exit_of_rank_0_, 1), HasSubstr("failed: of this job"));
}

TEST_F(JobVerdictTest, WithoutAnyRecordOrReportTheExitCodeIsNamed) {
  EXPECT_EQ(JobVerdict("off").text({}, 137),
            "hororun: the job failed with exit code 137 (signal 9, Killed); mpirun did not name a "
            "rank\n");
}

}  // namespace
}  // namespace horo
