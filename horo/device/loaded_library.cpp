#include "horo/device/loaded_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <utility>

#include "horo/base/error.h"

namespace horo::device {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  const char* reason = dlerror();
  throw DeviceError(
      fmt::format("{} cannot be loaded: {}; install it, or add its folder to LD_LIBRARY_PATH", name,
                  reason == nullptr ? "unknown error" : reason));
}

}  // namespace

// Prefers a library that the process has already loaded, so that a program and horo use one copy.
// Then tries the file that horo was built with, and finally the search path. The library is never
// closed, because its threads may still run at exit.
LoadedLibrary::LoadedLibrary(std::string name, const char* file, const char* built_with)
    : name_(std::move(name)) {
  library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  for (const char* path : {built_with, file})
    if (library_ == nullptr) library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) refuse(name_);
}

void* LoadedLibrary::address_of(const char* symbol) const {
  void* const address = optional_address_of(symbol);
  if (address == nullptr) refuse(name_);
  return address;
}

void* LoadedLibrary::optional_address_of(const char* symbol) const {
  return dlsym(library_, symbol);
}

std::string LoadedLibrary::path() const {
  const link_map* map = nullptr;
  return dlinfo(library_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

}  // namespace horo::device
