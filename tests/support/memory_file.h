#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace horo {

/// A file in memory, for functions that print to a std::FILE.
class MemoryFile {
 public:
  MemoryFile() : file_(open_memstream(&text_, &size_)) {}
  ~MemoryFile() {
    std::fclose(file_);
    std::free(text_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::FILE* file() const { return file_; }
  /// What has been written so far.
  std::string text() const {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

}  // namespace horo
