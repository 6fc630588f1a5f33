#include "horo/step_graph.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/completion.h"
#include "horo/plan/device_runner.h"
#include "horo/runtime/runtime.h"

namespace horo {

class StepGraph::Impl {
 public:
  Impl(std::shared_ptr<Runtime> runtime, std::shared_ptr<plan::DeviceRunner> runner,
       std::unique_ptr<plan::CapturedStep> step)
      : runtime_(std::move(runtime)), runner_(std::move(runner)), step_(std::move(step)) {}
  ~Impl() {
    // A child process of fork() has no runner's thread and cannot use the device, so it leaks the
    // step.
    if (runtime_->home().is_elsewhere())
      (void)step_.release();
    else
      runner_->release(*step_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void launch() {
    require_usable();
    runner_->launch(*step_);
  }
  void wait() {
    require_usable();
    runner_->wait(*step_);
  }

 private:
  void require_usable() const {
    coordinator::forbid_blocking_in_callbacks();
    runtime_->require_usable();
  }

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<plan::DeviceRunner> runner_;
  std::unique_ptr<plan::CapturedStep> step_;  // destroyed before the runner, to which it refers
};

StepGraph::StepGraph(std::shared_ptr<Runtime> runtime, std::shared_ptr<plan::DeviceRunner> runner,
                     std::unique_ptr<plan::CapturedStep> step)
    : impl_(std::make_unique<Impl>(std::move(runtime), std::move(runner), std::move(step))) {}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

void StepGraph::launch() { impl_->launch(); }
void StepGraph::wait() { impl_->wait(); }

}  // namespace horo
