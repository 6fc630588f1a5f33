#include "horo/diagnosis/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tests/flight_recorder/flight_logs.h"

namespace horo::observe {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

json events_of(const std::vector<FlightLog>& logs) {
  return json::parse(timeline_json(logs)).at("traceEvents");
}

std::vector<json> of_phase(const json& events, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : events)
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

TEST(Timeline, ShowsRanksAsProcessesWithNamedLanes) {
  auto logs = empty_flights(3);
  for (FlightLog& log : logs) {
    add_event(log, "x", "allreduce", 1, 2, 3, 4);
    add_event(log, "gradients.0/bucket 1", kBucketKind, 4, 5, 5, 6);
  }
  std::map<int, std::string> processes;
  std::map<int, std::set<std::string>> lanes;
  for (const json& event : of_phase(events_of(logs), "M")) {
    if (event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
    if (event.at("name") == "thread_name")
      lanes[event.at("pid")].insert(event.at("args").at("name").get<std::string>());
  }
  EXPECT_THAT(processes,
              ElementsAre(std::pair(0, "rank 0 (a, pid 100)"), std::pair(1, "rank 1 (a, pid 101)"),
                          std::pair(2, "rank 2 (b, pid 102)")));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(lanes[rank], UnorderedElementsAre("negotiation", "named operations", "gradients",
                                                  "plan gradients.0"));
}

TEST(Timeline, ShowsWaitForPlanThreadAsExposed) {
  auto logs = empty_flights(1);
  add_event(logs[0], "net/bucket 0", kBucketKind, 1, 2, 2, 5);
  add_event(logs[0], "net", kWaitKind, 0, 0, 3, 5).lane = kProgramLane;
  const json events = events_of(logs);
  std::map<int, std::string> lanes;
  for (const json& event : of_phase(events, "M"))
    if (event.at("name") == "thread_name")
      lanes[event.at("tid")] = event.at("args").at("name").get<std::string>();
  int found = 0;
  for (const json& event : of_phase(events, "X")) {
    if (event.at("name") != "wait for net") continue;
    ++found;
    EXPECT_EQ(lanes.at(event.at("tid")), "program (exposed)");
    EXPECT_EQ(event.at("cat"), "wait");
    EXPECT_EQ(event.at("dur"), 2000);
  }
  EXPECT_EQ(found, 1);
}

TEST(Timeline, ShowsNegotiationQueueAndExecution) {
  auto logs = empty_flights(1);
  add_event(logs[0], "x", "allreduce", 1, 2.5, 3, 4.25);
  const json events = events_of(logs);
  const auto runs = of_phase(events, "X");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].at("name"), "x");
  EXPECT_EQ(runs[0].at("cat"), "allreduce");
  EXPECT_DOUBLE_EQ(runs[0].at("ts"), 3000);
  EXPECT_DOUBLE_EQ(runs[0].at("dur"), 1250);
  EXPECT_EQ(runs[0].at("args").at("bytes"), 8);
  std::vector<std::tuple<std::string, std::string, double>> spans;
  for (const json& event : events)
    if (event.at("ph") == "b" || event.at("ph") == "e")
      spans.emplace_back(event.at("ph"), event.at("cat"), event.at("ts"));
  EXPECT_THAT(
      spans, ElementsAre(std::tuple("b", "negotiation", 1000), std::tuple("e", "negotiation", 2500),
                         std::tuple("b", "queue", 2500), std::tuple("e", "queue", 3000)));
}

TEST(Timeline, BalancesSpansWithoutNegativeTimes) {
  auto logs = empty_flights(2);
  for (FlightLog& log : logs)
    for (int k = 0; k < 20; ++k) {
      add_event(log, fmt::format("p/bucket {}", k), kBucketKind, 1 + k, 9 + k, 10 + k, 11 + k);
      add_event(log, fmt::format("op{}", k), "broadcast", 1, k % 2 == 0 ? 2 : 0, 0,
                k % 3 == 0 ? 5 : 0);
    }
  std::map<std::pair<int, int>, int> open;
  for (const json& event : events_of(logs)) {
    if (event.at("ph") == "M") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.value("dur", 0.0), 0);
    if (event.at("ph") == "b") ++open[{event.at("pid"), event.at("id")}];
    if (event.at("ph") == "e") --open[{event.at("pid"), event.at("id")}];
  }
  EXPECT_FALSE(open.empty());
  for (const auto& [span, count] : open) EXPECT_EQ(count, 0);
}

TEST(Timeline, KeepsUnfinishedOperationOpenUntilLastSignOfLife) {
  auto logs = empty_flights(1);
  add_event(logs[0], "stuck", "allreduce", 1, 2, 3, 0);
  logs[0].phase = "data";
  logs[0].phase_since = kStart + 5 * kMillisecond;
  logs[0].pause = "checkpoint";
  logs[0].pause_since = kStart + 6 * kMillisecond;
  const auto runs = of_phase(events_of(logs), "X");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].at("name"), "stuck (open)");
  EXPECT_DOUBLE_EQ(runs[0].at("dur"), 997'000);
  EXPECT_EQ(runs[1].at("name"), "data (open)");
  EXPECT_EQ(runs[2].at("name"), "checkpoint (open)");
}

TEST(Timeline, EscapesAnyName) {
  auto logs = empty_flights(1);
  add_event(logs[0], "quote \" back\\slash \n\x01 \xff\xc3", "allreduce", 1, 2, 3, 4);
  add_phase(logs[0], "{}{{%s", 1, 2);
  EXPECT_EQ(of_phase(events_of(logs), "X").size(), 2u);
}

TEST(Timeline, IsEmptyWithoutRanks) { EXPECT_TRUE(events_of({}).empty()); }

}  // namespace
}  // namespace horo::observe
