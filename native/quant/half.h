// Conversions between float and the 16-bit float types; the same bits with and without F16C.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace hearth::quant {

// IEEE half to float: exact; a signalling NaN becomes quiet, as F16C does.
constexpr float f16_to_f32_portable(uint16_t h) noexcept {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 31) {
        const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
    }
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    if (mantissa == 0) return std::bit_cast<float>(sign);
    // Subnormal: normalise. The leading one at bit b stands for 2^(b - 24).
    const auto shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21;
    mantissa = (mantissa << shift) & 0x3ffu;
    return std::bit_cast<float>(sign | ((113 - shift) << 23) | (mantissa << 13));
}

// Float to IEEE half, rounding to nearest even; overflow gives infinity, NaN stays a (quiet) NaN.
constexpr uint16_t f32_to_f16_portable(float f) noexcept {
    const auto bits = std::bit_cast<uint32_t>(f);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or more
    if (magnitude >= 0x38800000u) {                                              // normal half
        const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
        return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
    }
    if (magnitude <= 0x33000000u) return static_cast<uint16_t>(sign);  // at most half the least subnormal
    const uint32_t shift = 126 - (magnitude >> 23);                    // 14 to 24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = mantissa >> shift;
    const uint32_t dropped = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t up = (dropped > half || (dropped == half && (kept & 1u) != 0)) ? 1u : 0u;
    return static_cast<uint16_t>(sign | (kept + up));
}

inline float f16_to_f32(uint16_t h) noexcept {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return f16_to_f32_portable(h);
#endif
}

inline uint16_t f32_to_f16(float f) noexcept {
#if defined(__F16C__)
    return static_cast<uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    return f32_to_f16_portable(f);
#endif
}

constexpr float bf16_to_f32(uint16_t h) noexcept { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

// Rounds to nearest even; NaN stays a (quiet) NaN.
constexpr uint16_t f32_to_bf16(float f) noexcept {
    const auto bits = std::bit_cast<uint32_t>(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace hearth::quant
