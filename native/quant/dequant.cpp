#include "quant/dequant.h"

#include <cstring>

#include "quant/blocks.h"
#include "quant/half.h"

namespace hearth::quant {
namespace {

template <class T>
T load(const std::byte* src) noexcept {
    T value;
    std::memcpy(&value, src, sizeof value);
    return value;
}

// Each of the following writes one block to dst.

void expand(const BlockQ4_0& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 16; ++j) {
        dst[j] = d * static_cast<float>((b.qs[j] & 15) - 8);
        dst[j + 16] = d * static_cast<float>((b.qs[j] >> 4) - 8);
    }
}

void expand(const BlockQ4_1& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    const float m = f16_to_f32(b.m);
    for (int j = 0; j < 16; ++j) {
        dst[j] = d * static_cast<float>(b.qs[j] & 15) + m;
        dst[j + 16] = d * static_cast<float>(b.qs[j] >> 4) + m;
    }
}

// The fifth bit of value j, in place.
int fifth_bit(uint32_t qh, int j) noexcept { return static_cast<int>((qh >> j) & 1u) << 4; }

void expand(const BlockQ5_0& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    const auto qh = std::bit_cast<uint32_t>(b.qh);
    for (int j = 0; j < 16; ++j) {
        dst[j] = d * static_cast<float>(((b.qs[j] & 15) | fifth_bit(qh, j)) - 16);
        dst[j + 16] = d * static_cast<float>(((b.qs[j] >> 4) | fifth_bit(qh, j + 16)) - 16);
    }
}

void expand(const BlockQ5_1& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    const float m = f16_to_f32(b.m);
    const auto qh = std::bit_cast<uint32_t>(b.qh);
    for (int j = 0; j < 16; ++j) {
        dst[j] = d * static_cast<float>((b.qs[j] & 15) | fifth_bit(qh, j)) + m;
        dst[j + 16] = d * static_cast<float>((b.qs[j] >> 4) | fifth_bit(qh, j + 16)) + m;
    }
}

void expand(const BlockQ8_0& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 32; ++j) dst[j] = d * static_cast<float>(b.qs[j]);
}

void expand(const BlockQ4_K& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    const float dmin = f16_to_f32(b.dmin);
    for (int s = 0; s < 8; ++s) {
        const ScaleMin packed = scale_min(b.scales, s);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dmin * static_cast<float>(packed.min);
        const uint8_t* qs = b.qs + 32 * (s / 2);
        for (int l = 0; l < 32; ++l) {
            const int q = (qs[l] >> (4 * (s % 2))) & 15;
            dst[32 * s + l] = scale * static_cast<float>(q) - min;
        }
    }
}

void expand(const BlockQ5_K& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    const float dmin = f16_to_f32(b.dmin);
    for (int s = 0; s < 8; ++s) {
        const ScaleMin packed = scale_min(b.scales, s);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dmin * static_cast<float>(packed.min);
        const uint8_t* qs = b.qs + 32 * (s / 2);
        for (int l = 0; l < 32; ++l) {
            const int low = (qs[l] >> (4 * (s % 2))) & 15;
            const int high = (b.qh[l] >> s) & 1;
            dst[32 * s + l] = scale * static_cast<float>(low | (high << 4)) - min;
        }
    }
}

void expand(const BlockQ6_K& b, float* dst) noexcept {
    const float d = f16_to_f32(b.d);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128;
        const int group = (i % 128) / 32;
        const int l = i % 32;
        const int low = (b.ql[64 * half + 32 * (group % 2) + l] >> (4 * (group / 2))) & 15;
        const int high = (b.qh[32 * half + l] >> (2 * group)) & 3;
        const float scale = d * static_cast<float>(b.scales[i / 16]);
        dst[i] = scale * static_cast<float>((low | (high << 4)) - 32);
    }
}

template <class Block>
void expand_row(const std::byte* src, float* dst, int64_t n, int64_t block_elems) noexcept {
    for (int64_t i = 0; i < n; i += block_elems, src += sizeof(Block)) expand(load<Block>(src), dst + i);
}

}  // namespace

void dequantize_row(gguf::Type type, const std::byte* src, float* dst, int64_t n) {
    const size_t bytes = gguf::row_bytes(type, n);  // checks n
    const int64_t per_block = gguf::block_elems(type);
    switch (type) {
        case gguf::Type::F32: std::memcpy(dst, src, bytes); return;
        case gguf::Type::F16:
            for (int64_t i = 0; i < n; ++i) dst[i] = f16_to_f32(load<uint16_t>(src + 2 * i));
            return;
        case gguf::Type::BF16:
            for (int64_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(load<uint16_t>(src + 2 * i));
            return;
        case gguf::Type::Q4_0: return expand_row<BlockQ4_0>(src, dst, n, per_block);
        case gguf::Type::Q4_1: return expand_row<BlockQ4_1>(src, dst, n, per_block);
        case gguf::Type::Q5_0: return expand_row<BlockQ5_0>(src, dst, n, per_block);
        case gguf::Type::Q5_1: return expand_row<BlockQ5_1>(src, dst, n, per_block);
        case gguf::Type::Q8_0: return expand_row<BlockQ8_0>(src, dst, n, per_block);
        case gguf::Type::Q4_K: return expand_row<BlockQ4_K>(src, dst, n, per_block);
        case gguf::Type::Q5_K: return expand_row<BlockQ5_K>(src, dst, n, per_block);
        case gguf::Type::Q6_K: return expand_row<BlockQ6_K>(src, dst, n, per_block);
    }
}

}  // namespace hearth::quant
