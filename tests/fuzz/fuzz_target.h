#pragma once

#include <cstddef>
#include <cstdint>

/// What a fuzz target defines, for libFuzzer and for replay.cpp: runs one input; crashes, or lets
/// an exception escape, if something is wrong. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
