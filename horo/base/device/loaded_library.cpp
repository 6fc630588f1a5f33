#include "horo/base/device/loaded_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

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

LoadedLibrary::LoadedLibrary(std::string name, const char* file, const char* built_with)
    : name_(std::move(name)) {
  for (const char* path : {file, built_with}) {
    library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
  }
  refuse(name_);
}

void* LoadedLibrary::address_of(const char* symbol) const {
  void* const address = dlsym(library_, symbol);
  if (address == nullptr) refuse(name_);
  return address;
}

}  // namespace horo::device
