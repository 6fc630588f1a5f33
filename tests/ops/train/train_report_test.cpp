#include "ops/train/train_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

TrainReport example() {
  TrainReport report{
      .ranks = 4,
      .epochs = 3,
      .first_step = 40,
      .steps = 2,
      .was_stopped = true,
      .global_batch = 128,
      .batch_shares = {80, 48},
      .test_accuracy = 0.9875,
      .losses = {2.25f, 0.5f},
      .param_hash = "00ff00ff00ff00ff",
      .samples_per_second = 1000,
      .clipped_steps = 5,
      .skipped_steps = 6,
      .loss_scale = 512,
      .compression = {
          .bytes_sent = 10, .bytes_uncompressed = 40, .squared_values = 100, .squared_error = 1}};
  report.median_step[StepPhase::kBackward] = 7.5;
  report.median_step.total_ms = 12.5;
  report.bad_samples = 3;
  report.loader = {.waited = std::chrono::microseconds(1500), .threads = 2, .prefetch = 8};
  report.loader.reading.time = std::chrono::milliseconds(20);
  return report;
}

TEST(TrainReport, HasTheDocumentedKeys) {
  const auto json = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(json.at("ranks"), 4);
  EXPECT_EQ(json.at("epochs"), 3);
  EXPECT_EQ(json.at("first_step"), 40);
  EXPECT_EQ(json.at("steps"), 2);
  EXPECT_EQ(json.at("was_stopped"), true);
  EXPECT_EQ(json.at("global_batch"), 128);
  EXPECT_EQ(json.at("batch_shares"), (std::vector<int>{80, 48}));
  EXPECT_EQ(json.at("test_accuracy"), 0.9875);
  EXPECT_EQ(json.at("losses"), (std::vector<double>{2.25, 0.5}));
  EXPECT_EQ(json.at("param_hash"), "00ff00ff00ff00ff");
  EXPECT_EQ(json.at("samples_per_second"), 1000);
  EXPECT_EQ(json.at("control_messages_per_step"), 0);
  EXPECT_EQ(json.at("clipped_steps"), 5);
  EXPECT_EQ(json.at("skipped_steps"), 6);
  EXPECT_EQ(json.at("loss_scale"), 512);
  EXPECT_EQ(json.at("bad_samples"), 3);
  EXPECT_EQ(json.at("loader").at("threads"), 2);
  EXPECT_EQ(json.at("loader").at("prefetch"), 8);
  EXPECT_EQ(json.at("loader").at("waited_ms"), 1.5);
  EXPECT_EQ(json.at("loader").at("reading_ms"), 20);
  EXPECT_EQ(json.at("loader").at("reading_cpu_ms"), 0);
  EXPECT_EQ(json.at("compression_rate"), 4);
  EXPECT_EQ(json.at("compression_error"), 0.1);
  EXPECT_EQ(json.at("step_ms").size(), kPhaseCount + 1);
  for (const auto* phase : {"data_wait", "forward", "exposed_communication", "optimizer",
                            "transfer", "logging", "checkpoint"})
    EXPECT_EQ(json.at("step_ms").at(phase), 0) << phase;
  EXPECT_EQ(json.at("step_ms").at("backward"), 7.5);
  EXPECT_EQ(json.at("step_ms").at("total"), 12.5);
}

TEST(TrainReport, IsWrittenToAFile) {
  const auto path = std::filesystem::temp_directory_path() / "horo_train_report_test.json";
  write_json(example(), path);
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file), nlohmann::json::parse(to_json(example())));
  std::filesystem::remove(path);
}

TEST(TrainReport, NamesAFileThatCannotBeWritten) {
  try {
    write_json(example(), "/nonexistent/report.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/nonexistent/report.json"));
  }
}

}  // namespace
}  // namespace horo::ops
