#pragma once

namespace horo {

/// The name of the thread that exists while a rank waits in init() for other ranks. The launcher
/// looks for this name in /proc to find the ranks that are in init(). At most 15 characters.
inline constexpr const char* kInitThreadName = "horo init";

}  // namespace horo
