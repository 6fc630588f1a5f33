#pragma once

#include <string>

namespace horo::device {

/// A shared library that is opened when it is first needed, in the place of being linked: its
/// hundreds of megabytes cost programs that do not use it nothing, and machines without it run
/// them. It stays open: what such libraries have started cannot be taken down. Thread-safe.
class LoadedLibrary {
 public:
  /// Opens `file` where programs find their libraries, or else `built_with`, where it was when horo
  /// was built. `name`: what errors call it. Throws DeviceError, one line, if neither can be
  /// opened.
  LoadedLibrary(std::string name, const char* file, const char* built_with);

  /// Makes `function` the one called `symbol`. Throws DeviceError if there is none.
  template <typename Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }

 private:
  void* address_of(const char* symbol) const;

  std::string name_;
  void* library_ = nullptr;
};

}  // namespace horo::device
