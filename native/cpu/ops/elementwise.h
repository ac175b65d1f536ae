// The small ops between matmuls. n need not be a multiple of the lanes: tails go one value at a time
// through the scalar twin, which gives the same bits.
#pragma once

#include "cpu/isa/scalar.h"
#include "cpu/ops/lanes.h"

namespace hearth::cpu {
namespace {

// Calls body.template operator()<Isa>(i) for whole vectors, then body.template operator()<Scalar>(i).
template <class Isa, class Body>
inline void for_lanes(int64_t n, Body&& body) {
    int64_t i = 0;
    for (; i + Isa::kLanes <= n; i += Isa::kLanes) body.template operator()<Isa>(i);
    for (; i < n; ++i) body.template operator()<Scalar>(i);
}

// y = x / rms(x) * weight, rms over n values with eps inside the root; n a multiple of 16. y may be x.
template <class Isa>
void rms_norm(const float* x, const float* weight, float* y, int64_t n, float eps) {
    constexpr int kSteps = kWide / Isa::kLanes;
    typename Isa::F acc[kSteps];
    for (auto& a : acc) a = Isa::zero();
    for (int64_t i = 0; i < n; i += kWide)
        for (int s = 0; s < kSteps; ++s) {
            const auto v = Isa::load(x + i + s * Isa::kLanes);
            acc[s] = Isa::fma(v, v, acc[s]);
        }
    float lanes[kWide];
    for (int s = 0; s < kSteps; ++s) Isa::store(lanes + s * Isa::kLanes, acc[s]);
    const float mean = fold_sum(lanes) / static_cast<float>(n);
    const auto scale = Isa::set1(1.0F / __builtin_sqrtf(mean + eps));
    for (int64_t i = 0; i < n; i += Isa::kLanes)
        Isa::store(y + i, Isa::mul(Isa::mul(Isa::load(x + i), scale), Isa::load(weight + i)));
}

// y += x
template <class Isa>
void add(const float* x, float* y, int64_t n) {
    for_lanes<Isa>(n, [&]<class V>(int64_t i) { V::store(y + i, V::add(V::load(y + i), V::load(x + i))); });
}

template <class Isa>
void f16_to_f32(const uint16_t* x, float* y, int64_t n) {
    for_lanes<Isa>(n, [&]<class V>(int64_t i) { V::store(y + i, V::load_f16(x + i)); });
}

template <class Isa>
void f32_to_f16(const float* x, uint16_t* y, int64_t n) {
    for_lanes<Isa>(n, [&]<class V>(int64_t i) { V::store_f16(y + i, V::load(x + i)); });
}

// y = silu(gate) * up, silu(v) = v / (1 + e^-v). y may be gate or up.
template <class Isa>
void silu_mul(const float* gate, const float* up, float* y, int64_t n) {
    for_lanes<Isa>(n, [&]<class V>(int64_t i) {
        const auto g = V::load(gate + i);
        const auto e = exp<V>(V::sub(V::zero(), g));
        const auto s = V::div(g, V::add(V::set1(1.0F), e));
        V::store(y + i, V::mul(s, V::load(up + i)));
    });
}

// Rotates pairs of the first 2 * half values of x. neox pairs (i, i + half), otherwise (2 i, 2 i + 1).
// cos_sin: half cosines, then half sines.
template <class Isa>
void rope(float* x, const float* cos_sin, int64_t half, bool neox) {
    const float* c = cos_sin;
    const float* s = cos_sin + half;
    if (neox) {
        for_lanes<Isa>(half, [&]<class V>(int64_t i) {
            const auto a = V::load(x + i);
            const auto b = V::load(x + half + i);
            const auto cv = V::load(c + i);
            const auto sv = V::load(s + i);
            V::store(x + i, V::fma(a, cv, V::sub(V::zero(), V::mul(b, sv))));
            V::store(x + half + i, V::fma(a, sv, V::mul(b, cv)));
        });
        return;
    }
    for (int64_t i = 0; i < half; ++i) {
        const float a = x[2 * i];
        const float b = x[2 * i + 1];
        x[2 * i] = Scalar::fma(a, c[i], 0.0F - b * s[i]);
        x[2 * i + 1] = Scalar::fma(a, s[i], b * c[i]);
    }
}

} // namespace
} // namespace hearth::cpu
