#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "horo/base/system/file_descriptor.h"

namespace horo {

/// Writes to a file descriptor without waiting for a slow reader, and keeps the bytes that cannot
/// be written yet. Does not change the flags of the descriptor, because other processes share them.
/// Must be used by one thread.
class OutputQueue {
 public:
  /// `descriptor` must stay open while this object exists. The caller owns it.
  explicit OutputQueue(int descriptor);

  /// Adds bytes, then writes as many bytes as possible now.
  void add(std::string_view bytes);
  void write_some();
  /// Drops the unwritten bytes and all bytes that are added later.
  void give_up();

  bool is_empty() const { return waiting_.empty(); }
  /// Whether so many bytes are unwritten that the producer of the bytes should wait.
  bool is_full() const { return waiting_.size() >= kMost; }
  /// The descriptor for poll(). It is ready for POLLOUT when write_some() can write.
  int descriptor() const { return reopened_.is_open() ? reopened_.get() : descriptor_; }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 18;

  enum class Kind { kFile, kReopened, kSocket, kOther };
  Kind open_again();
  long write_part(std::string_view bytes) const;

  const int descriptor_;
  FileDescriptor reopened_;  // the same pipe or terminal, non-blocking
  const Kind kind_;
  bool has_given_up_ = false;
  std::string waiting_;
};

}  // namespace horo
