// Attention of a few query rows against one page of 64 keys and values, already expanded to float32.
//
// Positions are the lanes of the score pass (keys lie transposed, [head_dim][64]) and dimensions those of
// the value pass ([64][head_dim]), so nothing crosses lanes but the page's maximum and sum, which fold by a
// fixed tree. Pages are aligned to absolute positions and taken in order, which fixes each row's arithmetic
// whatever the batch; see model/attention.cpp for the rule over pages.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/ops/lanes.h"

namespace hearth::cpu {
namespace {

template <class Isa, int kRows>
inline void page_scores(const float* q, int64_t ldq, const float* keys, int head_dim, float* scores) {
    constexpr int kVectors = kPageTokens / Isa::kLanes;
    constexpr int kAtOnce = kVectors < 4 ? kVectors : 4;
    for (int v0 = 0; v0 < kVectors; v0 += kAtOnce) {
        typename Isa::F acc[kRows][kAtOnce];
        for (auto& row : acc)
            for (auto& a : row) a = Isa::zero();
        for (int i = 0; i < head_dim; ++i) {
            typename Isa::F k[kAtOnce];
            for (int v = 0; v < kAtOnce; ++v) k[v] = Isa::load(keys + i * kPageTokens + (v0 + v) * Isa::kLanes);
            for (int r = 0; r < kRows; ++r) {
                const auto qi = Isa::set1(q[r * ldq + i]);
                for (int v = 0; v < kAtOnce; ++v) acc[r][v] = Isa::fma(qi, k[v], acc[r][v]);
            }
        }
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kAtOnce; ++v) Isa::store(scores + r * kPageTokens + (v0 + v) * Isa::kLanes, acc[r][v]);
    }
}

// Turns scores into e^(score - m), updates m and l, returns the factor that acc must be scaled by.
template <class Isa>
inline float page_softmax(float* scores, int valid, SoftmaxState& state) {
    for (int i = valid; i < kPageTokens; ++i) scores[i] = -__builtin_inff();
    float lanes[kWide];
    for (int i = 0; i < kWide; ++i) {
        lanes[i] = scores[i];
        for (int j = i + kWide; j < kPageTokens; j += kWide) lanes[i] = scores[j] > lanes[i] ? scores[j] : lanes[i];
    }
    const float page_max = fold_max(lanes);
    const float m = page_max > state.m ? page_max : state.m;
    float factor[kWide] = {state.m - m}; // one lane used: the same exp for every instruction set
    for (int i = 0; i < kWide; i += Isa::kLanes) Isa::store(factor + i, exp<Isa>(Isa::load(factor + i)));
    const auto shift = Isa::set1(m);
    for (int i = 0; i < kPageTokens; i += Isa::kLanes)
        Isa::store(scores + i, exp<Isa>(Isa::sub(Isa::load(scores + i), shift)));
    for (int i = 0; i < kWide; ++i) {
        lanes[i] = scores[i];
        for (int j = i + kWide; j < kPageTokens; j += kWide) lanes[i] += scores[j];
    }
    state.l = __builtin_fmaf(state.l, factor[0], fold_sum(lanes));
    state.m = m;
    return factor[0];
}

template <class Isa, int kRows>
inline void page_values(const float* p, const int* valid, const float* factor, const float* values, int head_dim,
                        float* acc) {
    constexpr int kDims = 32;
    constexpr int kVectors = kDims / Isa::kLanes;
    int least = valid[0];
    for (int r = 1; r < kRows; ++r) least = valid[r] < least ? valid[r] : least;
    for (int d = 0; d < head_dim; d += kDims) {
        typename Isa::F a[kRows][kVectors];
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kVectors; ++v)
                a[r][v] = Isa::mul(Isa::load(acc + r * head_dim + d + v * Isa::kLanes), Isa::set1(factor[r]));
        for (int j = 0; j < least; ++j) {
            typename Isa::F x[kVectors];
            for (int v = 0; v < kVectors; ++v) x[v] = Isa::load(values + j * head_dim + d + v * Isa::kLanes);
            for (int r = 0; r < kRows; ++r) {
                const auto w = Isa::set1(p[r * kPageTokens + j]);
                for (int v = 0; v < kVectors; ++v) a[r][v] = Isa::fma(w, x[v], a[r][v]);
            }
        }
        // Never touch a position that a row does not see: it may hold anything.
        for (int r = 0; r < kRows; ++r)
            for (int j = least; j < valid[r]; ++j) {
                const auto w = Isa::set1(p[r * kPageTokens + j]);
                for (int v = 0; v < kVectors; ++v)
                    a[r][v] = Isa::fma(w, Isa::load(values + j * head_dim + d + v * Isa::kLanes), a[r][v]);
            }
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kVectors; ++v) Isa::store(acc + r * head_dim + d + v * Isa::kLanes, a[r][v]);
    }
}

template <class Isa, int kRows>
inline void attend_rows(const float* q, int64_t ldq, const float* keys, const float* values, const int* valid,
                        int head_dim, SoftmaxState* state, float* acc) {
    float scores[kRows * kPageTokens];
    float factor[kRows];
    page_scores<Isa, kRows>(q, ldq, keys, head_dim, scores);
    for (int r = 0; r < kRows; ++r) factor[r] = page_softmax<Isa>(scores + r * kPageTokens, valid[r], state[r]);
    page_values<Isa, kRows>(scores, valid, factor, values, head_dim, acc);
}

// n query rows (already scaled by 1/sqrt(head_dim)), ldq floats apart; row r sees the page's first valid[r] >= 1
// positions. acc: [n][head_dim]. head_dim is a multiple of 32.
template <class Isa>
void attend_page(const float* q, int64_t ldq, int n, const float* keys, const float* values, const int* valid,
                 int head_dim, SoftmaxState* state, float* acc) {
    constexpr int kRows = Isa::kLanes == 16 ? 4 : 2;
    int r = 0;
    for (; r + kRows <= n; r += kRows)
        attend_rows<Isa, kRows>(q + r * ldq, ldq, keys, values, valid + r, head_dim, state + r, acc + r * head_dim);
    for (; r < n; ++r)
        attend_rows<Isa, 1>(q + r * ldq, ldq, keys, values, valid + r, head_dim, state + r, acc + r * head_dim);
}

} // namespace
} // namespace hearth::cpu
