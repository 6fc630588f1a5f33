#include "horo/base/while_waiting.h"

#include <utility>

#include "horo/base/error.h"

namespace horo {
namespace {

thread_local const std::function<bool()>* work_of_thread = nullptr;

}  // namespace

WhileWaiting::WhileWaiting(std::function<bool()> work) : work_(std::move(work)) {
  HORO_CHECK(work_of_thread == nullptr, "");
  work_of_thread = &work_;
}

WhileWaiting::~WhileWaiting() { work_of_thread = nullptr; }

bool WhileWaiting::work_once() { return work_of_thread != nullptr && (*work_of_thread)(); }

}  // namespace horo
