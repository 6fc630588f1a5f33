#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {

/// The live objects behind the handles of one type. Thread-safe.
template <typename Object>
class Handles {
 public:
  /// `name` is the name of the type in texts of violations.
  explicit Handles(const char* name) : name_(name) {}

  Object* add(std::shared_ptr<Object> object) {
    const std::scoped_lock lock(mutex_);
    Object* const handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  /// It is a violation if the handle is not live.
  std::shared_ptr<Object> get(const char* call, Object* handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end())
      violation(call, "an unknown handle", std::string("the ") + name_ + " does not exist");
    return found->second;
  }
  std::shared_ptr<Object> remove(const char* call, Object* handle) {
    const std::shared_ptr<Object> object = get(call, handle);
    const std::scoped_lock lock(mutex_);
    objects_.erase(handle);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<Object>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }

 private:
  const char* const name_;
  std::mutex mutex_;
  std::map<Object*, std::shared_ptr<Object>> objects_;  // guarded by mutex_
};

}  // namespace horo::fakes
