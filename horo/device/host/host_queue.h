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

/// The thread of a host stream. If the work of an item throws, the thread calls `failed` of that
/// item, and `failed` instead of `work` for all later items. Thread-safe.
class HostQueue : public std::enable_shared_from_this<HostQueue> {
 public:
  using Work = std::function<void()>;
  using Failed = std::function<void(const std::string& text)>;

  HostQueue(std::chrono::microseconds max_delay, std::uint64_t seed);
  /// Executes the remaining items.
  ~HostQueue();

  /// `failed` may be empty.
  void push(Work work, Failed failed = {});
  bool is_idle() const;
  void await_idle() const;
  /// The text of the exception that ended the queue; empty if there was none.
  std::string failure() const;

  /// The capture that receives the calls of the stream; null if there is none.
  std::shared_ptr<HostCapture> capture() const;
  /// Returns false if the stream is already being captured.
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
  std::mt19937_64 random_;  // used only by the thread
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_, as are the members below
  bool is_working_ = false;
  bool is_ending_ = false;
  std::string failure_;
  std::shared_ptr<HostCapture> capture_;
  std::thread thread_;
};

}  // namespace horo::device
