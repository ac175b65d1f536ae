// Activations to 8 bits, per 32 columns: d = max|x| / 127, q = round-to-nearest-even(x * (127 / max|x|)).
// Finer than the 256-column blocks that K-quant engines commonly use for activations.
#pragma once

#include "cpu/ops/lanes.h"
#include "cpu/rows.h"

namespace hearth::cpu {
namespace {

// Fills rows.q, d, minus_ds and sum16 of one row from rows.x. cols is a multiple of 32.
template <class Isa>
void quantise_row(const Rows& rows, int64_t row) {
    constexpr int kSteps = 32 / Isa::kLanes;
    const float* x = rows.x + row * rows.cols;
    int8_t* q = rows.q + row * rows.cols;
    const int64_t blocks = rows.cols / 32;
    for (int64_t b = 0; b < blocks; ++b, x += 32, q += 32) {
        typename Isa::F v[kSteps];
        typename Isa::F most = Isa::zero();
        for (int i = 0; i < kSteps; ++i) {
            v[i] = Isa::load(x + i * Isa::kLanes);
            most = Isa::max(most, Isa::abs(v[i]));
        }
        float lanes[kWide] = {};
        Isa::store(lanes, most);
        const float amax = fold_max(lanes);
        const float d = amax / 127.0F;
        const auto inverse = Isa::set1(amax > 0.0F ? 127.0F / amax : 0.0F);
        for (int i = 0; i < kSteps; ++i) Isa::store_s8(q + i * Isa::kLanes, Isa::round(Isa::mul(v[i], inverse)));
        int32_t first = 0;
        int32_t second = 0;
        for (int i = 0; i < 16; ++i) first += q[i];
        for (int i = 16; i < 32; ++i) second += q[i];
        rows.sum16[2 * (row * blocks + b)] = first;
        rows.sum16[2 * (row * blocks + b) + 1] = second;
        rows.d[row * blocks + b] = d;
        rows.minus_ds[row * blocks + b] = -(d * static_cast<float>(first + second));
    }
}

} // namespace
} // namespace hearth::cpu
