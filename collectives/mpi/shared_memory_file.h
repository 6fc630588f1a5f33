#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace horo::collectives {

/// A POSIX shared memory object mapped into this process. Move-only; the destructor unmaps. The
/// name is removed by unlink(), or by the destructor of the creator: the memory then lives until
/// the last process has unmapped it. Errors are SharedMemoryError.
class SharedMemoryFile {
 public:
  /// Makes an object that only this user can open, under a name no other has.
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps the object that another process made.
  static SharedMemoryFile open(const std::string& name, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  /// Claims part number `part` of `parts` equal ones, in whole pages: an error that says how much
  /// is missing comes now, not as a SIGBUS later, and the memory lies on the NUMA node of the
  /// processor that this runs on. Once for each part, by the process that uses it most.
  void claim(int part, int parts);

  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return bytes_; }
  /// Removes the name; nothing more can be claimed. Does nothing the second time.
  void unlink() noexcept;

 private:
  SharedMemoryFile(std::string name, int descriptor)
      : name_(std::move(name)), descriptor_(descriptor) {}
  void map(std::size_t bytes);

  std::string name_;
  int descriptor_;
  std::span<std::byte> bytes_;
  bool is_linked_ = false;
};

}  // namespace horo::collectives
