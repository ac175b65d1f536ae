// GGUF tensor rows to float32. The specification is engine/reference/quants.py; both give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/type.h"

namespace hearth::quant {

// Writes n floats from the row_bytes(type, n) bytes at src, which need no alignment.
// Throws std::invalid_argument when n is not a multiple of the type's block.
// Bit-exactness needs products and sums rounded one by one: compile with -ffp-contract=off.
void dequantize_row(gguf::Type type, const std::byte* src, float* dst, int64_t n);

}  // namespace hearth::quant
