#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace horo::collectives {

/// A POSIX shared memory object mapped into this process. Move-only; the destructor unmaps. The
/// name is removed by unlink(), or by the destructor of the creator: the memory then lives until
/// the last process has unmapped it. Errors are SharedMemoryError.
class SharedMemoryFile {
 public:
  /// Makes an object that only this user can open, under a name no other has, with all its memory
  /// claimed: an error that says how much is missing comes now, not as a SIGBUS later.
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps the object that another process made.
  static SharedMemoryFile open(const std::string& name, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return bytes_; }
  /// Removes the name. Does nothing the second time.
  void unlink() noexcept;

 private:
  SharedMemoryFile() = default;
  void map(int descriptor, std::size_t bytes);

  std::string name_;
  std::span<std::byte> bytes_;
  bool is_linked_ = false;
};

}  // namespace horo::collectives
