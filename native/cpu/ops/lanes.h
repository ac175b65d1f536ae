// Reductions and elementary functions over 16 fixed lanes, the same bits on every instruction set.
#pragma once

#include <cstdint>

namespace hearth::cpu {
namespace {

inline constexpr int kWide = 16; // lanes of every reduction, whatever the register width

// 16 partial sums folded by a fixed tree.
inline float fold_sum(const float* p) {
    float a[8];
    for (int i = 0; i < 8; ++i) a[i] = p[i] + p[i + 8];
    for (int i = 0; i < 4; ++i) a[i] = a[i] + a[i + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}

inline float fold_max(const float* p) {
    float m = p[0];
    for (int i = 1; i < kWide; ++i) m = p[i] > m ? p[i] : m;
    return m;
}

// e^x: Cody-Waite reduction by ln 2 in two parts and a degree-6 Taylor-Horner polynomial on |r| <= ln(2)/2,
// relative error below 3e-7. Below -87 the result is exactly 0 (so -inf masks), above 88 it is clamped.
template <class Isa>
inline typename Isa::F exp(typename Isa::F x) {
    using F = typename Isa::F;
    const F low = Isa::set1(-87.0F);
    const F clamped = Isa::min(Isa::max(x, low), Isa::set1(88.0F));
    const F n = Isa::round(Isa::mul(clamped, Isa::set1(1.44269504088896341F)));
    F r = Isa::fma(n, Isa::set1(-0.693359375F), clamped);
    r = Isa::fma(n, Isa::set1(2.12194440e-4F), r);
    F p = Isa::set1(1.0F / 720.0F);
    p = Isa::fma(p, r, Isa::set1(1.0F / 120.0F));
    p = Isa::fma(p, r, Isa::set1(1.0F / 24.0F));
    p = Isa::fma(p, r, Isa::set1(1.0F / 6.0F));
    p = Isa::fma(p, r, Isa::set1(0.5F));
    p = Isa::fma(p, r, Isa::set1(1.0F));
    p = Isa::fma(p, r, Isa::set1(1.0F));
    return Isa::zero_where_less(Isa::mul(p, Isa::pow2(n)), x, low);
}

} // namespace
} // namespace hearth::cpu
