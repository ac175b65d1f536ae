// AVX-VNNI: AVX2's vocabulary with one instruction for four byte products a lane. What recent Intel client
// processors have, which lack AVX-512.
#pragma once

#include "cpu/isa/avx2.h"

namespace hearth::cpu {
namespace {

struct AvxVnni : Avx2 {
    static constexpr const char* kName = "avx-vnni";
    static constexpr int kByteZero = 128; // dot<8> sums the unsigned bytes; the caller takes off the zero point

    template <int kBits, int kGroups>
    static I dot(I init, const B* w, const int8_t* a) {
        // Two chains hide half of the instruction's latency; integer sums do not care about order.
        I even = init;
        I odd = _mm256_setzero_si256();
        for (int g = 0; g < kGroups; g += 2) {
            even = _mm256_dpbusd_avx_epi32(even, w[g], broadcast4(a + 4 * g));
            odd = _mm256_dpbusd_avx_epi32(odd, w[g + 1], broadcast4(a + 4 * g + 4));
        }
        return _mm256_add_epi32(even, odd);
    }
};

} // namespace
} // namespace hearth::cpu
