#pragma once

namespace horo::ops {

/// Handles a signal of this process while an object exists: the handler notes that it was received.
/// Several objects may watch the same signal. Thread-safe.
class SignalWatch {
 public:
  /// Throws InvalidArgument for a number that is not a signal, or a signal that cannot be handled.
  explicit SignalWatch(int signal);
  /// Restores the previous handling after the last object of the signal.
  ~SignalWatch();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch& operator=(SignalWatch&&) = delete;

  /// Whether the signal was received since the first object of the signal was made, or since the
  /// latest take().
  bool was_received() const;
  /// The same, and forgets it.
  bool take();

 private:
  int signal_;  // 0: moved from
};

}  // namespace horo::ops
