#include "horo/metrics/step_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace horo::metrics {
namespace {

StepRecord some_step() {
  StepRecord step{.step = 811,
                  .ended = 5'000'000'000,
                  .length = 40'000'000,
                  .blocked = 12'000'001,
                  .exposed = 10'000'000,
                  .exchange = 20'000'000,
                  .buckets = 3,
                  .bytes = 1'000'000};
  step.phases[0] = 7'000'000;
  step.phases[2] = 1;
  return step;
}

TEST(StepLine, HasEveryMember) {
  const std::vector<std::string> phases = {"data", "forward", "back\"ward\n\xff"};
  const std::string line =
      step_line({0xabc, 3, "h"}, {"grad", "", 4}, some_step(), phases, 1'770'000'000'000'000'000);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["job"], "0000000000000abc");
  EXPECT_EQ(json["rank"], 3);
  EXPECT_EQ(json["plan"], "grad");
  EXPECT_FALSE(json.contains("process_set"));
  EXPECT_EQ(json["step"], 811);
  EXPECT_DOUBLE_EQ(json["time"], 1'770'000'005.0);
  EXPECT_DOUBLE_EQ(json["arrived"], 1'770'000'004.99);
  EXPECT_DOUBLE_EQ(json["step_seconds"], 0.04);
  EXPECT_DOUBLE_EQ(json["own_seconds"], 0.027999999);
  EXPECT_DOUBLE_EQ(json["blocked_seconds"], 0.012000001);
  EXPECT_DOUBLE_EQ(json["exposed_seconds"], 0.01);
  EXPECT_DOUBLE_EQ(json["exchange_seconds"], 0.02);
  EXPECT_EQ(json["buckets"], 3);
  EXPECT_EQ(json["bytes"], 1'000'000);
  EXPECT_FALSE(json.contains("wire_bytes"));
  EXPECT_DOUBLE_EQ(json["algbw"], 5e7);
  EXPECT_DOUBLE_EQ(json["busbw"], 7.5e7);  // 2 (4-1)/4
  EXPECT_EQ(json["phases"].size(), 2u) << "only those with time";
  EXPECT_DOUBLE_EQ(json["phases"]["data"], 0.007);
  EXPECT_DOUBLE_EQ(json["phases"]["back\"ward\n\xef\xbf\xbd"], 1e-9);
}

TEST(StepLine, HasOptionalMembers) {
  StepRecord step = some_step();
  step.wire_bytes = 250'000;
  step.phases = {};
  step.exchange = 0;
  const auto json =
      nlohmann::json::parse(step_line({1, 0, "h"}, {"a\\b", "{0, 2}", 2}, step, {}, 0));
  EXPECT_EQ(json["plan"], "a\\b");
  EXPECT_EQ(json["process_set"], "{0, 2}");
  EXPECT_EQ(json["wire_bytes"], 250'000);
  EXPECT_TRUE(json["phases"].empty());
  EXPECT_EQ(json["algbw"], 0) << "a number, because JSON has no infinity";
}

TEST(StepLine, SingleRankHasNoBusBandwidth) {
  const auto json = nlohmann::json::parse(step_line({}, {"g", "", 1}, some_step(), {}, 0));
  EXPECT_EQ(json["busbw"], 0);
}

}  // namespace
}  // namespace horo::metrics
