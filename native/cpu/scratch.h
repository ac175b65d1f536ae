// What a matmul kernel's caller must lend it.
#pragma once

#include <cstdint>

namespace hearth::cpu {

// One unpacked block of a panel: 8 groups of 64 bytes, then three float[16] of scales (see ops/matmul.h).
inline constexpr int64_t kUnpackedBytes = 8 * 64 + 3 * 16 * 4;

// Bytes of scratch that a worker needs for a matrix of this many columns.
constexpr int64_t matmul_scratch_bytes(int64_t cols) { return (cols + 31) / 32 * kUnpackedBytes; }

} // namespace hearth::cpu
