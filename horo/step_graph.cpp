#include "horo/step_graph.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/completion.h"
#include "horo/plan/bucket_scheduler.h"
#include "horo/runtime/runtime.h"

namespace horo {

class StepGraph::Impl {
 public:
  Impl(std::shared_ptr<Runtime> runtime, std::shared_ptr<plan::BucketScheduler> scheduler,
       std::unique_ptr<plan::CapturedStep> step)
      : runtime_(std::move(runtime)), scheduler_(std::move(scheduler)), step_(std::move(step)) {}
  ~Impl() {
    // A child process of fork() has no scheduler's thread and cannot use the device, so it leaks
    // the step.
    if (runtime_->home().is_elsewhere())
      (void)step_.release();
    else
      scheduler_->release(*step_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void launch() {
    require_usable();
    scheduler_->launch(*step_);
  }
  void wait() {
    require_usable();
    scheduler_->wait(*step_);
  }

 private:
  void require_usable() const {
    coordinator::forbid_blocking_in_callbacks();
    runtime_->require_usable();
  }

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<plan::BucketScheduler> scheduler_;
  std::unique_ptr<plan::CapturedStep> step_;  // destroyed before the scheduler, to which it refers
};

StepGraph::StepGraph(std::shared_ptr<Runtime> runtime,
                     std::shared_ptr<plan::BucketScheduler> scheduler,
                     std::unique_ptr<plan::CapturedStep> step)
    : impl_(std::make_unique<Impl>(std::move(runtime), std::move(scheduler), std::move(step))) {}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

void StepGraph::launch() { impl_->launch(); }
void StepGraph::wait() { impl_->wait(); }

}  // namespace horo
