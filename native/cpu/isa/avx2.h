// AVX2 + FMA + F16C: eight lanes. Integer dot products go through 16-bit sums that cannot saturate for the
// given weight width, so they are exact and equal to the scalar twin's.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace hearth::cpu {
namespace {

struct Avx2 {
    static constexpr const char* kName = "avx2";
    static constexpr int kLanes = 8;
    static constexpr int kTileRows = 4;
    static constexpr int kByteZero = 0; // dot<8> takes 128 off each weight by itself

    using F = __m256;
    using I = __m256i;
    using B = __m256i;

    static F zero() { return _mm256_setzero_ps(); }
    static F set1(float x) { return _mm256_set1_ps(x); }
    static F load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
    static F load_f16(const uint16_t* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static F load_bf16(const uint16_t* p) {
        const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
    static void store_f16(uint16_t* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    static F load_u8(const uint8_t* p) {
        return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    }
    static F load_s8(const uint8_t* p) {
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    }
    static F add(F a, F b) { return _mm256_add_ps(a, b); }
    static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static F div(F a, F b) { return _mm256_div_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm256_max_ps(a, b); }
    static F min(F a, F b) { return _mm256_min_ps(a, b); }
    static F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
    static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
    static F zero_where_less(F value, F x, F limit) {
        return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), value);
    }
    static F pow2(F n) {
        const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
    }
    static void store_s8(int8_t* p, F x) {
        const __m256i i = _mm256_cvtps_epi32(x);
        const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(w, w));
    }

    static I set1_i32(int32_t x) { return _mm256_set1_epi32(x); }
    static F to_float(I x) { return _mm256_cvtepi32_ps(x); }

    static B load_bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
    static void store_bytes(uint8_t* p, B b) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), b); }
    static B low_nibbles(B b) { return _mm256_and_si256(b, _mm256_set1_epi8(0x0F)); }
    static B high_nibbles(B b) { return _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(0x0F)); }
    template <int kFrom, int kBits>
    static B with_high_bits(B value, B plane) {
        constexpr int kMask = ((1 << kBits) - 1) << 4;
        const B shifted = kFrom > 4 ? _mm256_srli_epi16(plane, kFrom > 4 ? kFrom - 4 : 0)
                                    : _mm256_slli_epi16(plane, kFrom > 4 ? 0 : 4 - kFrom);
        return _mm256_or_si256(value, _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(kMask))));
    }

    template <int kBits, int kGroups>
    static I dot(I init, const B* w, const int8_t* a) {
        const __m256i ones = _mm256_set1_epi16(1);
        if constexpr (kBits == 8) {
            // Unsigned bytes would saturate the 16-bit pair sums, so work on w - 128 as signed:
            // |w - 128| <= 128 fits the unsigned operand, and 128 * 127 * 2 < 2^15.
            for (int g = 0; g < kGroups; ++g) {
                const __m256i s = _mm256_xor_si256(w[g], _mm256_set1_epi8(static_cast<char>(0x80)));
                const __m256i x = broadcast4(a + 4 * g);
                const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(x, s));
                init = _mm256_add_epi32(init, _mm256_madd_epi16(pairs, ones));
            }
            return init;
        } else {
            // Pair sums are at most 2 * (2^kBits - 1) * 127; this many of them fit 16 bits.
            constexpr int kSafe = 32767 / (2 * ((1 << kBits) - 1) * 127);
            constexpr int kRun = kSafe < kGroups ? kSafe : kGroups;
            for (int g = 0; g < kGroups; g += kRun) {
                __m256i pairs = _mm256_maddubs_epi16(w[g], broadcast4(a + 4 * g));
                for (int j = 1; j < kRun && g + j < kGroups; ++j)
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[g + j], broadcast4(a + 4 * (g + j))));
                init = _mm256_add_epi32(init, _mm256_madd_epi16(pairs, ones));
            }
            return init;
        }
    }

private:
    static __m256i broadcast4(const int8_t* a) {
        int32_t x;
        std::memcpy(&x, a, 4);
        return _mm256_set1_epi32(x);
    }
};

} // namespace
} // namespace hearth::cpu
