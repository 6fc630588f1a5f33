#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

namespace horo::device {

class HostCapture;

/// The thread behind a stream of the host. Work that throws ends it: `failed` of what follows is
/// called in the place of `work`. Thread-safe.
class HostQueue : public std::enable_shared_from_this<HostQueue> {
 public:
  using Work = std::function<void()>;
  using Failed = std::function<void(const std::string& text)>;

  HostQueue(std::chrono::microseconds max_delay, std::uint64_t seed);
  /// Does what is left.
  ~HostQueue();

  /// `failed` may be empty.
  void push(Work work, Failed failed = {});
  bool is_idle() const;
  void await_idle() const;
  /// Why it has ended; empty: it has not.
  std::string failure() const;

  /// What the stream's calls go into in the place of the queue; null: nothing.
  std::shared_ptr<HostCapture> capture() const;
  /// Returns false if there is one already.
  bool enter(std::shared_ptr<HostCapture> capture);
  void leave_capture();

 private:
  struct Item {
    Work work;
    Failed failed;
  };
  void run();
  void run_item(const Item& item);
  void delay();

  const std::chrono::microseconds max_delay_;
  std::mt19937_64 random_;  // the thread's
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_, as what follows
  bool is_working_ = false;
  bool is_ending_ = false;
  std::string failure_;
  std::shared_ptr<HostCapture> capture_;
  std::thread thread_;
};

}  // namespace horo::device
