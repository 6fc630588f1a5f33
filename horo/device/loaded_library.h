#pragma once

#include <string>

namespace horo::device {

/// A shared library that is opened on first use instead of being linked. Programs that do not use
/// the library do not load its hundreds of megabytes, and run on machines without the library. The
/// library is never closed, because the threads of such libraries cannot be stopped. Thread-safe.
class LoadedLibrary {
 public:
  /// Uses `file` if the process has already loaded it, directly or by LD_PRELOAD. Otherwise opens
  /// `built_with`, the path of the library when horo was built, whose version matches the headers.
  /// If that fails, opens `file` on the library search path. `name` appears in errors. Throws
  /// DeviceError with one line of text if no file can be opened.
  LoadedLibrary(std::string name, const char* file, const char* built_with);

  /// Sets `function` to the function `symbol`. Throws DeviceError if `symbol` does not exist.
  template <typename Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }
  /// The same, but sets `function` to null if `symbol` does not exist, as in an older version.
  template <typename Function>
  void find_optional(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(optional_address_of(symbol));
  }
  /// The path of the file that was opened.
  std::string path() const;

 private:
  void* address_of(const char* symbol) const;
  void* optional_address_of(const char* symbol) const;

  std::string name_;
  void* library_ = nullptr;
};

}  // namespace horo::device
