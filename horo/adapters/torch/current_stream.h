#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "horo/base/error.h"

namespace horo::libtorch {

/// The handle of the current stream of torch on `device`, for AllreduceOptions::stream. Null for
/// the CPU, which has no streams.
inline void* current_stream(const c10::Device& device) {
  if (device.is_cpu()) return nullptr;
  const auto handle_of = [](const auto& stream) -> void* {
    if constexpr (requires { stream.native_handle(); })
      return stream.native_handle();
    else
      throw DeviceError(
          "this version of libtorch does not tell the handles of its streams, which "
          "horo needs on a GPU; use libtorch 2.4 or later");
  };
  return handle_of(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

}  // namespace horo::libtorch
