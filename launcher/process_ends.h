#pragma once

#include <sys/types.h>

#include <map>

#include "horo/base/file_descriptor.h"

namespace horo {

/// Tells when processes end, which need not be children of this one. Where the kernel has no
/// pidfd_open() (Linux before 5.3) it says nothing. Used by one thread.
class ProcessEnds {
 public:
  ProcessEnds();

  /// Watches a process. The caller looks at it again afterwards: it may have ended before.
  void add(pid_t pid);
  /// Whether a process that is watched has ended. It is not watched any more.
  bool take();
  /// Watches no process any more.
  void clear() { processes_.clear(); }
  /// For poll(): readable when take() has something to say; -1: never.
  int descriptor() const { return events_.get(); }

 private:
  FileDescriptor events_;  // an epoll instance
  std::map<int, FileDescriptor> processes_;
};

}  // namespace horo
