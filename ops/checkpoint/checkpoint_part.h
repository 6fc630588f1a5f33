#pragma once

#include <filesystem>

#include "ops/checkpoint/checkpoint_directory.h"
#include "ops/checkpoint/safetensors.h"

namespace horo::ops {

/// The version of the contents of checkpoints. Other versions are refused.
inline constexpr const char* kCheckpointVersion = "1";

/// The metadata that every part has: a placeholder for the checksum, format, version, step, part,
/// parts. Further keys may follow.
Safetensors::Metadata part_metadata(const CheckpointName& name, int part);

/// Computes the checksum (CRC-32 of the whole file with "00000000" in place of the checksum) and
/// stores it. `file` was reset() with part_metadata().
void seal(Safetensors& file);

/// Reads a part. Throws Error, with the path and the reason, if the file cannot be read, is
/// truncated or damaged, is no checkpoint, has another version, or is another part than its name
/// says.
Safetensors read_part(const CheckpointDirectory& directory, const CheckpointName& name, int part);

}  // namespace horo::ops
