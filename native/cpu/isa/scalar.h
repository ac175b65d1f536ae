// The scalar twin: the same vocabulary as the SIMD ISAs, one lane wide. It is the specification that the
// others are held against bit for bit, and what runs on a machine with none of them.
// Internal linkage on purpose (the unnamed namespace): every file that includes this is compiled for its own
// instruction set, and the linker must never merge their copies.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace hearth::cpu {
namespace {

struct Scalar {
    static constexpr const char* kName = "scalar";
    static constexpr int kLanes = 1;    // float lanes of F
    static constexpr int kTileRows = 4; // activation rows that share one pass over a weight panel
    static constexpr int kByteZero = 128; // dot<8> sums the unsigned bytes; the caller takes off the zero point

    using F = float;
    using I = int32_t;
    struct B {
        uint8_t v[4];
    }; // kLanes rows x 4 consecutive k

    static F zero() { return 0.0F; }
    static F set1(float x) { return x; }
    static F load(const float* p) { return *p; }
    static void store(float* p, F x) { *p = x; }
    static F load_f16(const uint16_t* p) { return quant::f16_to_f32_portable(*p); }
    static F load_bf16(const uint16_t* p) { return quant::bf16_to_f32(*p); }
    static void store_f16(uint16_t* p, F x) { *p = quant::f32_to_f16_portable(x); }
    static F load_u8(const uint8_t* p) { return static_cast<float>(*p); }
    static F load_s8(const uint8_t* p) { return static_cast<float>(static_cast<int8_t>(*p)); }
    static F add(F a, F b) { return a + b; }
    static F sub(F a, F b) { return a - b; }
    static F mul(F a, F b) { return a * b; }
    static F div(F a, F b) { return a / b; }
    static F fma(F a, F b, F c) { return std::fma(a, b, c); }
    static F max(F a, F b) { return a > b ? a : b; } // SIMD max returns b when either is NaN; so does this
    static F min(F a, F b) { return a < b ? a : b; }
    static F abs(F a) { return std::fabs(a); }
    static F round(F a) { return std::nearbyint(a); } // to nearest, ties to even, as the SIMD conversions do
    static F zero_where_less(F value, F x, F limit) { return x < limit ? 0.0F : value; }
    // 2^n for integral n in [-126, 127]
    static F pow2(F n) {
        const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
        float out;
        std::memcpy(&out, &bits, sizeof out);
        return out;
    }
    // x is integral, in [-127, 127]; anything else (a NaN) saturates as the SIMD conversions do
    static void store_s8(int8_t* p, F x) { *p = x >= -127.0F && x <= 127.0F ? static_cast<int8_t>(x) : int8_t{-128}; }

    static I set1_i32(int32_t x) { return x; }
    static F to_float(I x) { return static_cast<float>(x); }

    static B load_bytes(const uint8_t* p) {
        B b;
        std::memcpy(b.v, p, 4);
        return b;
    }
    static void store_bytes(uint8_t* p, B b) { std::memcpy(p, b.v, 4); }
    static B low_nibbles(B b) {
        for (auto& x : b.v) x &= 0x0F;
        return b;
    }
    static B high_nibbles(B b) {
        for (auto& x : b.v) x >>= 4;
        return b;
    }
    // value | ((plane >> kFrom) & mask(kBits)) << 4, byte by byte
    template <int kFrom, int kBits>
    static B with_high_bits(B value, B plane) {
        for (int i = 0; i < 4; ++i)
            value.v[i] = static_cast<uint8_t>(value.v[i] | (((plane.v[i] >> kFrom) & ((1 << kBits) - 1)) << 4));
        return value;
    }

    // init + sum over kGroups groups of 4 k: unsigned weights w[g] times signed activations a[4 g ...].
    // kBits is the weights' width; it lets narrower ISAs choose exact 16-bit accumulation.
    template <int kBits, int kGroups>
    static I dot(I init, const B* w, const int8_t* a) {
        for (int g = 0; g < kGroups; ++g)
            for (int i = 0; i < 4; ++i) init += static_cast<int32_t>(w[g].v[i]) * a[4 * g + i];
        return init;
    }
};

} // namespace
} // namespace hearth::cpu
