#pragma once

#include <fcntl.h>
#include <sched.h>

#include "horo/base/system/file_descriptor.h"

namespace horo {

/// While it exists, sockets that the calling thread creates are in a private network namespace.
/// Needs root; is_there() tells whether the namespace exists.
class PrivateNetwork {
 public:
  PrivateNetwork()
      : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)),
        is_there_(before_.is_open() && unshare(CLONE_NEWNET) == 0) {}
  ~PrivateNetwork() {
    if (is_there_) setns(before_.get(), CLONE_NEWNET);
  }
  PrivateNetwork(const PrivateNetwork&) = delete;
  PrivateNetwork& operator=(const PrivateNetwork&) = delete;

  bool is_there() const { return is_there_; }

 private:
  FileDescriptor before_;
  bool is_there_;
};

}  // namespace horo
