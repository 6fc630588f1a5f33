#include "ops/train/callbacks/profile_window.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/cpu/threads.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/train/requested_stop.h"
#include "tests/ops/train/small_task.h"
#include "tests/support/memory_file.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns what rank 0 shows.
std::string train_with_profile(const ProfileOptions& profile, bool on_device = false,
                               std::uint64_t stop_at = 0) {
  static const BarsDataset train_set(240, 1), test_set(30, 2);
  const MemoryFile shown;
  testing::run_ranks(2, [&](Context& context) {
    set_compute_threads(1);
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    TrainerOptions options{.global_batch = 24, .evaluate_every = 4, .evaluation_batch = 30};
    options.profile = profile;
    options.progress.file = shown.file();
    options.callbacks = {std::make_shared<RequestedStop>(stop_at)};
    if (on_device) options.device.device = device.get();
    const auto model = make_small_model(0);
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
    (void)Trainer(context, *model, optimizer, train_set, test_set, options).run();
  });
  return shown.text();
}

class ProfileWindowTest : public ::testing::Test {
 protected:
  nlohmann::json trace() const { return nlohmann::json::parse(std::ifstream(file)); }

  const observe::TemporaryDirectory directory;
  const std::filesystem::path file = std::filesystem::path(directory.path()) / "trace.json";
};

TEST_F(ProfileWindowTest, TracesThePhasesOfTheStepsOfAllRanks) {
  for (const bool on_device : {false, true}) {
    EXPECT_THAT(
        train_with_profile({.first = 3, .last = 5, .trace = file}, on_device),
        HasSubstr("profiled steps 3 to 5: the phases of all ranks are in " + file.string()));
    std::map<int, std::set<int>> steps_of_rank;
    std::map<std::string, int> spans;
    const nlohmann::json content = trace();
    for (const auto& event : content.at("traceEvents")) {
      if (event.at("ph") == "M") continue;
      EXPECT_EQ(event.at("ph"), "X");
      EXPECT_GE(event.at("ts"), 0);
      EXPECT_GE(event.at("dur"), 0);
      steps_of_rank[event.at("pid")].insert(event.at("args").at("step").get<int>());
      ++spans[event.at("name")];
    }
    for (const int rank : {0, 1}) EXPECT_THAT(steps_of_rank[rank], ElementsAre(3, 4, 5));
    for (const char* name : {"step", "data_wait", "backward", "exposed_communication", "optimizer"})
      EXPECT_EQ(spans[name], 6) << name;
    EXPECT_EQ(spans["evaluation"], 2);  // after step 4
  }
}

// The phases of a step do not overlap and lie inside it.
TEST_F(ProfileWindowTest, PhasesFollowEachOther) {
  (void)train_with_profile({.first = 2, .last = 9, .trace = file});
  double end = 0, step_end = 0;
  const nlohmann::json content = trace();
  for (const auto& event : content.at("traceEvents")) {
    if (event.at("ph") == "M" || event.at("pid") != 0) continue;
    const double begin = event.at("ts"), duration = event.at("dur");
    if (event.at("name") == "step") {
      EXPECT_GE(begin, step_end);
      EXPECT_NEAR(begin + duration, end, 1);
      step_end = begin + duration;
    } else {
      EXPECT_GE(begin, end - 1e-3);
      end = begin + duration;
    }
  }
  EXPECT_GT(step_end, 0);
}

TEST_F(ProfileWindowTest, EndsWithTraining) {
  EXPECT_THAT(train_with_profile({.first = 8, .last = 90, .trace = file}),
              HasSubstr("profiled steps 8 to 10"));
  EXPECT_THAT(train_with_profile({.first = 2, .last = 9, .trace = file}, false, 3),
              HasSubstr("profiled steps 2 to 3"));
  EXPECT_EQ(train_with_profile({.first = 50, .last = 90}).find("profiled"), std::string::npos);
}

TEST_F(ProfileWindowTest, EnablesPerfInTheWindow) {
  const std::filesystem::path fifo = std::filesystem::path(directory.path()) / "perf";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_THAT(train_with_profile({.first = 2, .last = 3, .perf_control = fifo}),
              HasSubstr("profiled steps 2 to 3\n"));
  std::array<char, 64> text{};
  const ssize_t size = read(reader, text.data(), text.size());
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(size)), "enable\ndisable\n");
  close(reader);
}

TEST_F(ProfileWindowTest, FailsOnAllRanksWithoutAReaderOrAPlaceForTheTrace) {
  const std::filesystem::path fifo = std::filesystem::path(directory.path()) / "perf";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(train_with_profile({.first = 2, .last = 3, .perf_control = fifo}), Error);
  EXPECT_THROW(train_with_profile({.first = 2, .last = 3, .trace = "/nonexistent/trace"}), Error);
}

TEST(ProfileWindow, RefusesStepsOutOfOrder) {
  EXPECT_THROW(train_with_profile({.first = 3, .last = 2}), InvalidArgument);
  EXPECT_THROW(train_with_profile({.first = 0, .last = 2}), InvalidArgument);
  EXPECT_THROW(train_with_profile({.first = 1, .last = 1'000'000}), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
