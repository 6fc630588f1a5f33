#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "horo/device/signal.h"

namespace horo::device {

class HostSignal : public Signal {
 public:
  /// The number, which the waits of streams share.
  class Number {
   public:
    void raise(std::uint32_t number) {
      {
        const std::scoped_lock lock(mutex_);
        number_ = number;
      }
      changed_.notify_all();
    }
    /// Blocks until the number has reached `number`.
    void await(std::uint32_t number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return has_reached(number_, number); });
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint32_t number_ = 0;  // guarded by mutex_
  };

  void raise(std::uint32_t number) override { number_->raise(number); }
  std::shared_ptr<Number> number() const { return number_; }

 private:
  const std::shared_ptr<Number> number_ = std::make_shared<Number>();
};

}  // namespace horo::device
