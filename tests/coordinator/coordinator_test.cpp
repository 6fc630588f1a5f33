#include "horo/coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "horo/flight_recorder/flight_recorder.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

Entry task(const std::string& name, std::function<void(collectives::Collectives&)> function) {
  Entry entry;
  entry.request.name = name;
  entry.request.kind = Kind::kTask;
  entry.task = std::move(function);
  return entry;
}

bool is_done_soon(const Completion& completion) {
  for (int polls = 0; polls < 20'000 && !completion.is_done(); ++polls)
    std::this_thread::sleep_for(1ms);
  return completion.is_done();
}

// While a caller runs the rounds, submissions do not wake the sleeping thread. The thread must find
// them before its idle interval ends.
TEST(Coordinator, SubmissionDuringPerformWakesThread) {
  collectives::InProcessJob job(1);
  const auto transport = job.transport(0);
  const Settings settings;
  const collectives::AllreduceSelection selection;
  observe::FlightRecorder recorder({});
  Coordinator coordinator(*transport, settings, selection, recorder, 1h);
  for (int k = 0; k < 10; ++k) {
    std::this_thread::sleep_for(20ms);  // the thread falls asleep
    std::shared_ptr<Completion> later;
    coordinator.perform(task("first", [&](collectives::Collectives&) {
      later = coordinator.submit(task("later", [](collectives::Collectives&) {}));
    }));
    ASSERT_TRUE(is_done_soon(*later)) << k;
  }
}

}  // namespace
}  // namespace horo::coordinator
