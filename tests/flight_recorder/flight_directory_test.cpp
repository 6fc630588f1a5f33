#include "horo/flight_recorder/flight_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "horo/base/error.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo::observe {
namespace {

namespace fs = std::filesystem;

fs::path make_job(const fs::path& base, const std::string& name, int hours_ago) {
  const fs::path job = base / name;
  fs::create_directories(job);
  std::ofstream(job / flight_file_name(0)) << "of a process that is gone";
  fs::last_write_time(job, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  return job;
}

TEST(FlightDirectory, ParsesSetting) {
  EXPECT_FALSE(flight_location("off", 1).has_value());
  EXPECT_EQ(flight_location("auto", 0xabc)->directory, flight_base() / "0000000000000abc");
  EXPECT_TRUE(flight_location("auto", 1)->is_default);
  EXPECT_EQ(flight_location("auto:mine", 1)->directory, flight_base() / "mine");
  EXPECT_TRUE(flight_location("auto:mine", 1)->is_default);
  EXPECT_EQ(flight_location("/data/flights", 1)->directory, "/data/flights");
  EXPECT_FALSE(flight_location("/data/flights", 1)->is_default);
  EXPECT_EQ(flight_location("automatic", 1)->directory, "automatic");
}

TEST(FlightDirectory, FindsFilesByRankOnly) {
  const TemporaryDirectory directory;
  for (const char* name : {"rank.10.flight", "rank.2.flight", "rank.0.flight", "rank.x.flight",
                           "rank.1.flight~", "notes.txt", "rank..flight"})
    std::ofstream(directory.path() / name) << "x";
  std::vector<std::string> names;
  for (const fs::path& file : flight_files(directory.path())) names.push_back(file.filename());
  EXPECT_THAT(names, testing::ElementsAre("rank.0.flight", "rank.2.flight", "rank.10.flight"));
  EXPECT_TRUE(flight_files("/no/such/directory").empty());
}

TEST(FlightDirectory, ListsNewestJobFirst) {
  const TemporaryDirectory base;
  const fs::path old = make_job(base.path(), "a", 5);
  const fs::path newest = make_job(base.path(), "b", 1);
  const fs::path middle = make_job(base.path(), "c", 3);
  fs::create_directories(base.path() / "empty");
  EXPECT_THAT(flight_jobs(base.path()), testing::ElementsAre(newest, middle, old));
}

TEST(FlightDirectory, RemovesOldJobsExceptRunningOnes) {
  const TemporaryDirectory base;
  for (int i = 0; i < 12; ++i) make_job(base.path(), fmt::format("job{}", i), i + 1);
  const fs::path running = make_job(base.path(), "running", 50);
  const FlightRecorder recorder({.path = running / flight_file_name(0)});
  fs::last_write_time(running, fs::file_time_type::clock::now() - std::chrono::hours(50));
  const fs::path foreign = make_job(base.path(), "foreign", 60);
  std::ofstream(foreign / "notes.txt") << "not ours";
  fs::last_write_time(foreign, fs::file_time_type::clock::now() - std::chrono::hours(60));
  const fs::path stopped = base.path() / "job9";
  const auto its_time = fs::last_write_time(stopped);
  record_stop_request(stopped, {15, 1});
  fs::last_write_time(stopped, its_time);
  prune_flights(base.path());
  EXPECT_FALSE(fs::exists(stopped));
  EXPECT_EQ(flight_jobs(base.path()).size(), kKeptJobs + 1);
  EXPECT_TRUE(fs::exists(running));
  EXPECT_TRUE(fs::exists(base.path() / "job7"));
  EXPECT_FALSE(fs::exists(base.path() / "job8"));
  EXPECT_TRUE(fs::exists(foreign / "notes.txt"));
  EXPECT_FALSE(fs::exists(foreign / flight_file_name(0)));
}

// Their launchers may not have read the records yet.
TEST(FlightDirectory, KeepsJobsThatHaveJustEnded) {
  const TemporaryDirectory base;
  for (int i = 0; i < 12; ++i) make_job(base.path(), fmt::format("job{}", i), 0);
  prune_flights(base.path());
  EXPECT_EQ(flight_jobs(base.path()).size(), 12u);
}

TEST(FlightDirectory, RemovesDirectoriesWithLastRank) {
  const TemporaryDirectory temporary;
  const FlightLocation slot{temporary.path() / "base" / "job", true};
  create_flight_directory(slot);
  for (int rank : {0, 1}) std::ofstream(slot.directory / flight_file_name(rank)) << "x";
  EXPECT_EQ(fs::status(slot.directory).permissions(), fs::perms::owner_all);
  remove_flight(slot, 1);
  EXPECT_TRUE(fs::exists(slot.directory / flight_file_name(0)));
  remove_flight(slot, 0);
  EXPECT_FALSE(fs::exists(temporary.path() / "base"));
}

TEST(FlightDirectory, StoresStopRequest) {
  const TemporaryDirectory temporary;
  EXPECT_FALSE(read_stop_request(temporary.path()));
  record_stop_request(temporary.path(), {2, 1'700'000'000'123'456'789});
  record_stop_request(temporary.path() / "no such directory", {2, 3});
  const auto order = read_stop_request(temporary.path());
  ASSERT_TRUE(order);
  EXPECT_EQ(order->signal, 2);
  EXPECT_EQ(order->at, 1'700'000'000'123'456'789);
  EXPECT_TRUE(flight_files(temporary.path()).empty());
}

TEST(FlightDirectory, RejectsPreparedLink) {
  const TemporaryDirectory temporary;
  fs::create_directories(temporary.path() / "elsewhere");
  fs::create_directory_symlink(temporary.path() / "elsewhere", temporary.path() / "base");
  EXPECT_THROW(create_flight_directory({temporary.path() / "base" / "job", true}), Error);
  EXPECT_FALSE(fs::exists(temporary.path() / "elsewhere" / "job"));
}

}  // namespace
}  // namespace horo::observe
