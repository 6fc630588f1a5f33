#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace horo {

/// While it lives, /dev/shm of the calling thread is another, empty and of `bytes`. Needs root:
/// is_there() says whether it could be had.
class PrivateShm {
 public:
  explicit PrivateShm(std::size_t bytes) : before_(open("/proc/self/ns/mnt", O_RDONLY)) {
    if (before_ < 0 || unshare(CLONE_NEWNS) != 0) return;
    const std::string size = "size=" + std::to_string(bytes);
    is_there_ = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                mount("horo", "/dev/shm", "tmpfs", 0, size.c_str()) == 0;
  }
  ~PrivateShm() {
    if (before_ < 0) return;
    setns(before_, CLONE_NEWNS);
    close(before_);
  }
  PrivateShm(const PrivateShm&) = delete;
  PrivateShm& operator=(const PrivateShm&) = delete;

  bool is_there() const { return is_there_; }

 private:
  int before_;
  bool is_there_ = false;
};

}  // namespace horo
