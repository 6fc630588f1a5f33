#pragma once

#include <cstddef>
#include <cstdint>

/// The entry point of a fuzz target, for libFuzzer and replay.cpp. Runs one input and returns 0.
/// Crashes, or lets an exception escape, on an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
