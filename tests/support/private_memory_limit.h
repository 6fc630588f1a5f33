#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace horo {

/// While it exists, this process is in its own cgroup with a memory limit. Needs root; is_there()
/// tells whether the cgroup exists.
class PrivateMemoryLimit {
 public:
  explicit PrivateMemoryLimit(std::size_t bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; !is_there_ && std::getline(groups, line);) {
      const std::string name = line.substr(line.rfind(':') + 1);
      if (line.find(":memory:") != std::string::npos)
        enter("/sys/fs/cgroup/memory" + name, "memory.limit_in_bytes", bytes);
      else if (line.starts_with("0::"))
        enter("/sys/fs/cgroup" + name, "memory.max", bytes);
    }
  }
  ~PrivateMemoryLimit() {
    if (is_there_) write(before_ / "cgroup.procs", "0");
    leave_nothing();
  }
  PrivateMemoryLimit(const PrivateMemoryLimit&) = delete;
  PrivateMemoryLimit& operator=(const PrivateMemoryLimit&) = delete;

  bool is_there() const { return is_there_; }

 private:
  void enter(const std::filesystem::path& before, const char* limit, std::size_t bytes) {
    before_ = before;
    group_ = before / fmt::format("horo-test-{}", getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(group_, error)) return;
    is_there_ = write(group_ / limit, std::to_string(bytes)) && write(group_ / "cgroup.procs", "0");
    if (!is_there_) leave_nothing();
  }
  void leave_nothing() const {
    std::error_code ignored;
    std::filesystem::remove(group_, ignored);
  }
  static bool write(const std::filesystem::path& file, const std::string& text) {
    std::ofstream stream(file);
    return static_cast<bool>(stream << text << std::flush);
  }

  std::filesystem::path before_, group_;
  bool is_there_ = false;
};

}  // namespace horo
