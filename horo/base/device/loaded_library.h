#pragma once

#include <string>

namespace horo::device {

/// A shared library that is opened when it is first needed, in the place of being linked: its
/// hundreds of megabytes cost programs that do not use it nothing, and machines without it run
/// them. It stays open: what such libraries have started cannot be taken down. Thread-safe.
class LoadedLibrary {
 public:
  /// Takes `file` as the process has it already, if it does (another library may have loaded it, or
  /// LD_PRELOAD); or else opens `built_with`, where it was when horo was built, whose version is
  /// that of the headers; or else `file` where programs find their libraries. `name`: what errors
  /// call it. Throws DeviceError, one line, if none can be opened.
  LoadedLibrary(std::string name, const char* file, const char* built_with);

  /// Makes `function` the one called `symbol`. Throws DeviceError if there is none.
  template <typename Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }
  /// The same, but null if there is none: an older version lacks it.
  template <typename Function>
  void find_optional(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(optional_address_of(symbol));
  }
  /// The file that was opened.
  std::string path() const;

 private:
  void* address_of(const char* symbol) const;
  void* optional_address_of(const char* symbol) const;

  std::string name_;
  void* library_ = nullptr;
};

}  // namespace horo::device
