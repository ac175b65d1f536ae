// AVX-512 (F, BW, VL, VNNI): sixteen lanes, one instruction for four byte products a lane.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace hearth::cpu {
namespace {

struct Avx512Vnni {
    static constexpr const char* kName = "avx512-vnni";
    static constexpr int kLanes = 16;
    static constexpr int kTileRows = 8;
    static constexpr int kByteZero = 128; // dot<8> sums the unsigned bytes; the caller takes off the zero point

    using F = __m512;
    using I = __m512i;
    using B = __m512i;

    static F zero() { return _mm512_setzero_ps(); }
    static F set1(float x) { return _mm512_set1_ps(x); }
    static F load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
    static F load_f16(const uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static F load_bf16(const uint16_t* p) {
        const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
    static void store_f16(uint16_t* p, F x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    static F load_u8(const uint8_t* p) {
        return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
    static F load_s8(const uint8_t* p) {
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
    static F add(F a, F b) { return _mm512_add_ps(a, b); }
    static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static F div(F a, F b) { return _mm512_div_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm512_max_ps(a, b); }
    static F min(F a, F b) { return _mm512_min_ps(a, b); }
    static F abs(F a) { return _mm512_abs_ps(a); }
    static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
    static F zero_where_less(F value, F x, F limit) {
        return _mm512_maskz_mov_ps(_knot_mask16(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ)), value);
    }
    static F pow2(F n) {
        const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
        return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
    }
    static void store_s8(int8_t* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
    }

    static I set1_i32(int32_t x) { return _mm512_set1_epi32(x); }
    static F to_float(I x) { return _mm512_cvtepi32_ps(x); }

    static B load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
    static void store_bytes(uint8_t* p, B b) { _mm512_storeu_si512(p, b); }
    static B low_nibbles(B b) { return _mm512_and_si512(b, _mm512_set1_epi8(0x0F)); }
    static B high_nibbles(B b) { return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(0x0F)); }
    template <int kFrom, int kBits>
    static B with_high_bits(B value, B plane) {
        constexpr int kMask = ((1 << kBits) - 1) << 4;
        const B shifted = kFrom > 4 ? _mm512_srli_epi16(plane, kFrom > 4 ? kFrom - 4 : 0)
                                    : _mm512_slli_epi16(plane, kFrom > 4 ? 0 : 4 - kFrom);
        // value | (shifted & mask) in one instruction
        return _mm512_ternarylogic_epi32(value, shifted, _mm512_set1_epi8(static_cast<char>(kMask)), 0xF8);
    }

    template <int kBits, int kGroups>
    static I dot(I init, const B* w, const int8_t* a) {
        // Two chains hide half of the instruction's latency; integer sums do not care about order.
        I even = init;
        I odd = _mm512_setzero_si512();
        for (int g = 0; g < kGroups; g += 2) {
            even = _mm512_dpbusd_epi32(even, w[g], broadcast4(a + 4 * g));
            odd = _mm512_dpbusd_epi32(odd, w[g + 1], broadcast4(a + 4 * g + 4));
        }
        return _mm512_add_epi32(even, odd);
    }

private:
    static __m512i broadcast4(const int8_t* a) {
        int32_t x;
        std::memcpy(&x, a, 4);
        return _mm512_set1_epi32(x);
    }
    static __mmask16 _knot_mask16(__mmask16 m) { return static_cast<__mmask16>(~m); }
};

} // namespace
} // namespace hearth::cpu
