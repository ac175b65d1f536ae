// Block layouts of GGUF's quantised types, as they lie in the file (little endian).
// Halves (d, m, dmin) are IEEE binary16 bits: see half.h. Blocks need 2-byte alignment only.
#pragma once

#include <cstdint>

namespace hearth::quant {

// 32 values: x = d (q - 8). qs[j] holds value j (low nibble) and j + 16 (high nibble).
struct BlockQ4_0 {
    uint16_t d;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// 32 values: x = d q + m. Nibbles as in Q4_0.
struct BlockQ4_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// 32 values: x = d (q - 16). Low four bits as in Q4_0; bit j of the 32-bit number qh is value j's fifth.
struct BlockQ5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// 32 values: x = d q + m. Bits as in Q5_0.
struct BlockQ5_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// 32 values: x = d q.
struct BlockQ8_0 {
    uint16_t d;
    int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// 256 values in 8 sub-blocks of 32: x = (d sc) q - (dmin mn), sc and mn six bits each (see scale_min).
// qs[32 p + l] holds value l of sub-block 2 p (low nibble) and of 2 p + 1 (high nibble).
struct BlockQ4_K {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As Q4_K, with a fifth bit: bit s of qh[l] belongs to value l of sub-block s.
struct BlockQ5_K {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// 256 values in 16 sub-blocks of 16: x = (d scales[s]) (q - 32). Each half h of 128 values is four groups g of
// 32: the low four bits of group g, value l are a nibble of ql[64 h + 32 (g % 2) + l] (low for g < 2), the
// high two are bits 2 g and 2 g + 1 of qh[32 h + l].
struct BlockQ6_K {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

struct ScaleMin {
    uint8_t scale;
    uint8_t min;
};

// Scale and minimum (0 to 63) of sub-block s (0 to 7) from the 12 packed bytes of Q4_K and Q5_K.
constexpr ScaleMin scale_min(const uint8_t (&scales)[12], int s) noexcept {
    if (s < 4) {
        return {static_cast<uint8_t>(scales[s] & 63), static_cast<uint8_t>(scales[s + 4] & 63)};
    }
    return {static_cast<uint8_t>((scales[s + 4] & 15) | ((scales[s - 4] >> 6) << 4)),
            static_cast<uint8_t>((scales[s + 4] >> 4) | ((scales[s] >> 6) << 4))};
}

}  // namespace hearth::quant
