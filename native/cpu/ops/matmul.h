// y = W x for packed weights: one output is one chain of fused multiply-adds over blocks of 32 columns, in
// column order, each adding an exact integer dot product times the two scales:
//
//     acc = fma(s_w * d_x, float(sum q_w q_x - zero * sum q_x), acc)      [then, affine types]
//     acc = fma(m_w, -(d_x * sum q_x), acc)
//
// Nothing else is ever rounded, so a row's bits depend on neither its neighbours nor the instruction set.
// For few rows the packed weights are unpacked in registers; for many, a panel is unpacked once into
// scratch and swept by tiles of rows. Both run the same chain.
#pragma once

#include <cstdint>

#include "cpu/rows.h"
#include "cpu/scratch.h"
#include "quant/packed.h"

namespace hearth::cpu {
namespace {

using gguf::Type;

// Rows beyond this many make the unpacked form pay.
template <class Isa>
inline constexpr int64_t kUnpackAbove = 2 * Isa::kTileRows;

namespace detail {

template <class Isa, int kBits>
inline void unpack(const uint8_t* q, int lane, typename Isa::B* w) {
    using quant::kGroupBytes;
    const uint8_t* p = q + 4 * lane;
    if constexpr (kBits == 8) {
        for (int g = 0; g < 8; ++g) w[g] = Isa::load_bytes(p + g * kGroupBytes);
        return;
    }
    for (int g = 0; g < 4; ++g) {
        const auto v = Isa::load_bytes(p + g * kGroupBytes);
        w[g] = Isa::low_nibbles(v);
        w[g + 4] = Isa::high_nibbles(v);
    }
    if constexpr (kBits == 5) {
        const auto high = Isa::load_bytes(p + 4 * kGroupBytes);
        w[0] = Isa::template with_high_bits<0, 1>(w[0], high);
        w[1] = Isa::template with_high_bits<1, 1>(w[1], high);
        w[2] = Isa::template with_high_bits<2, 1>(w[2], high);
        w[3] = Isa::template with_high_bits<3, 1>(w[3], high);
        w[4] = Isa::template with_high_bits<4, 1>(w[4], high);
        w[5] = Isa::template with_high_bits<5, 1>(w[5], high);
        w[6] = Isa::template with_high_bits<6, 1>(w[6], high);
        w[7] = Isa::template with_high_bits<7, 1>(w[7], high);
    }
    if constexpr (kBits == 6) {
        for (int half = 0; half < 2; ++half) {
            const auto high = Isa::load_bytes(p + (4 + half) * kGroupBytes);
            auto* v = w + 4 * half;
            v[0] = Isa::template with_high_bits<0, 2>(v[0], high);
            v[1] = Isa::template with_high_bits<2, 2>(v[1], high);
            v[2] = Isa::template with_high_bits<4, 2>(v[2], high);
            v[3] = Isa::template with_high_bits<6, 2>(v[3], high);
        }
    }
}

// Scales of one block for kLanes rows. s1 and m only where the format has them.
template <class Isa>
struct Scales {
    typename Isa::F s0, s1, m;
};

// Weights stream from memory once a pass, faster than the hardware's own prefetching runs ahead: asking this many
// bytes early (the next panels follow in memory) lets one core read at the memory's own rate.
inline constexpr int kPrefetchAhead = 4096;

// Walks a packed panel block by block, unpacking in registers.
template <class Isa, Type type>
class PackedSource {
public:
    using Fmt = quant::Format<type>;
    PackedSource(const uint8_t* panel, int lane) : p_(panel), lane_(lane) {}

    void next(typename Isa::B* w, Scales<Isa>& s) {
        if constexpr (Fmt::kIsK) {
            if (block_++ % quant::kSuperBlocks == 0) {
                d_ = Isa::load_f16(reinterpret_cast<const uint16_t*>(p_) + lane_);
                if constexpr (Fmt::kAffine) dmin_ = Isa::load_f16(reinterpret_cast<const uint16_t*>(p_ + 32) + lane_);
                p_ += Fmt::kHeaderBytes;
            }
            if constexpr (Fmt::kAffine) {
                s.s0 = Isa::mul(d_, Isa::load_u8(p_ + lane_));
                s.m = Isa::mul(dmin_, Isa::load_u8(p_ + 16 + lane_));
            } else {
                s.s0 = Isa::mul(d_, Isa::load_s8(p_ + lane_));
                s.s1 = Isa::mul(d_, Isa::load_s8(p_ + 16 + lane_));
            }
        } else {
            s.s0 = Isa::load_f16(reinterpret_cast<const uint16_t*>(p_) + lane_);
            if constexpr (Fmt::kAffine) s.m = Isa::load_f16(reinterpret_cast<const uint16_t*>(p_ + 32) + lane_);
        }
        if (lane_ == 0) {
            for (int i = 0; i < Fmt::kBlockBytes; i += 64) __builtin_prefetch(p_ + kPrefetchAhead + i);
        }
        unpack<Isa, Fmt::kBits>(p_ + Fmt::kScaleBytes, lane_, w);
        p_ += Fmt::kBlockBytes;
    }

private:
    const uint8_t* p_;
    int lane_;
    int64_t block_ = 0;
    typename Isa::F d_ = Isa::zero();
    typename Isa::F dmin_ = Isa::zero();
};

// An unpacked block is 8 groups of bytes, then s0, s1, m as float[16] each: kUnpackedBytes.
template <class Isa, Type type>
class UnpackedSource {
public:
    using Fmt = quant::Format<type>;
    UnpackedSource(const uint8_t* scratch, int lane) : p_(scratch), lane_(lane) {}

    void next(typename Isa::B* w, Scales<Isa>& s) {
        for (int g = 0; g < 8; ++g) w[g] = Isa::load_bytes(p_ + g * quant::kGroupBytes + 4 * lane_);
        const auto* f = reinterpret_cast<const float*>(p_ + 8 * quant::kGroupBytes) + lane_;
        s.s0 = Isa::load(f);
        if constexpr (Fmt::kHalfBlockScales) s.s1 = Isa::load(f + 16);
        if constexpr (Fmt::kAffine) s.m = Isa::load(f + 32);
        p_ += kUnpackedBytes;
    }

private:
    const uint8_t* p_;
    int lane_;
};

template <class Isa, Type type>
void unpack_panel(const uint8_t* panel, int64_t blocks, uint8_t* scratch) {
    using Fmt = quant::Format<type>;
    for (int lane = 0; lane < quant::kPanelRows; lane += Isa::kLanes) {
        PackedSource<Isa, type> source(panel, lane);
        uint8_t* out = scratch;
        for (int64_t b = 0; b < blocks; ++b, out += kUnpackedBytes) {
            typename Isa::B w[8];
            Scales<Isa> s;
            source.next(w, s);
            for (int g = 0; g < 8; ++g) Isa::store_bytes(out + g * quant::kGroupBytes + 4 * lane, w[g]);
            auto* f = reinterpret_cast<float*>(out + 8 * quant::kGroupBytes) + lane;
            Isa::store(f, s.s0);
            if constexpr (Fmt::kHalfBlockScales) Isa::store(f + 16, s.s1);
            if constexpr (Fmt::kAffine) Isa::store(f + 32, s.m);
        }
    }
}

// kRows rows, starting at `row`, times one panel.
template <class Isa, Type type, class Source, int kRows>
inline void tile(const uint8_t* weights, const Rows& x, int64_t row, float* y, int64_t ldy) {
    using Fmt = quant::Format<type>;
    constexpr int kZero = Fmt::kBits == 8 ? Isa::kByteZero : Fmt::kZero;
    const int64_t blocks = x.cols / quant::kBlockCols;
    for (int lane = 0; lane < quant::kPanelRows; lane += Isa::kLanes) {
        typename Isa::F acc[kRows];
        for (int t = 0; t < kRows; ++t) acc[t] = Isa::zero();
        Source source(weights, lane);
        const int8_t* q = x.q + row * x.cols;
        const float* d = x.d + row * blocks;
        const float* minus_ds = x.minus_ds + row * blocks;
        const int32_t* sum16 = x.sum16 + row * 2 * blocks;
        for (int64_t b = 0; b < blocks; ++b) {
            typename Isa::B w[8];
            Scales<Isa> s;
            source.next(w, s);
            for (int t = 0; t < kRows; ++t) {
                const int8_t* a = q + t * x.cols + b * quant::kBlockCols;
                const int32_t* sums = sum16 + 2 * (t * blocks + b);
                const auto dx = Isa::set1(d[t * blocks + b]);
                if constexpr (Fmt::kHalfBlockScales) {
                    const auto i0 = Isa::template dot<Fmt::kBits, 4>(Isa::set1_i32(-kZero * sums[0]), w, a);
                    const auto i1 = Isa::template dot<Fmt::kBits, 4>(Isa::set1_i32(-kZero * sums[1]), w + 4, a + 16);
                    acc[t] = Isa::fma(Isa::mul(s.s0, dx), Isa::to_float(i0), acc[t]);
                    acc[t] = Isa::fma(Isa::mul(s.s1, dx), Isa::to_float(i1), acc[t]);
                } else {
                    const int32_t init = kZero == 0 ? 0 : -kZero * (sums[0] + sums[1]);
                    const auto i = Isa::template dot<Fmt::kBits, 8>(Isa::set1_i32(init), w, a);
                    acc[t] = Isa::fma(Isa::mul(s.s0, dx), Isa::to_float(i), acc[t]);
                    if constexpr (Fmt::kAffine) acc[t] = Isa::fma(s.m, Isa::set1(minus_ds[t * blocks + b]), acc[t]);
                }
            }
        }
        for (int t = 0; t < kRows; ++t) Isa::store(y + (row + t) * ldy + lane, acc[t]);
    }
}

template <class Isa, Type type, class Source, int kRows = Isa::kTileRows>
inline void tiles(const uint8_t* weights, const Rows& x, int64_t row, int64_t end, float* y, int64_t ldy) {
    for (; row + kRows <= end; row += kRows) tile<Isa, type, Source, kRows>(weights, x, row, y, ldy);
    if constexpr (kRows > 1) {
        if (row < end) tiles<Isa, type, Source, kRows / 2>(weights, x, row, end, y, ldy);
    }
}

template <class Isa, Type type, int kRows>
inline void float_tile(const uint8_t* panel, const Rows& x, int64_t row, float* y, int64_t ldy) {
    for (int lane = 0; lane < quant::kPanelRows; lane += Isa::kLanes) {
        typename Isa::F acc[kRows];
        for (int t = 0; t < kRows; ++t) acc[t] = Isa::zero();
        for (int64_t k = 0; k < x.cols; ++k) {
            const int64_t at = k * quant::kPanelRows + lane;
            typename Isa::F w;
            if constexpr (type == Type::F32)
                w = Isa::load(reinterpret_cast<const float*>(panel) + at);
            else if constexpr (type == Type::F16)
                w = Isa::load_f16(reinterpret_cast<const uint16_t*>(panel) + at);
            else
                w = Isa::load_bf16(reinterpret_cast<const uint16_t*>(panel) + at);
            for (int t = 0; t < kRows; ++t) acc[t] = Isa::fma(w, Isa::set1(x.x[(row + t) * x.cols + k]), acc[t]);
        }
        for (int t = 0; t < kRows; ++t) Isa::store(y + (row + t) * ldy + lane, acc[t]);
    }
}

template <class Isa, Type type, int kRows = Isa::kTileRows>
inline void float_tiles(const uint8_t* panel, const Rows& x, int64_t row, int64_t end, float* y, int64_t ldy) {
    for (; row + kRows <= end; row += kRows) float_tile<Isa, type, kRows>(panel, x, row, y, ldy);
    if constexpr (kRows > 1) {
        if (row < end) float_tiles<Isa, type, kRows / 2>(panel, x, row, end, y, ldy);
    }
}

} // namespace detail

// y[row][0..16) = W[panel] . x[row] for rows [row, end). y points at the panel's first column; ldy is y's row
// stride in floats; 16 floats a row are written. scratch: matmul_scratch_bytes(x.cols), 64-byte aligned.
template <class Isa, Type type>
void matmul_panel(const uint8_t* panel, const Rows& x, int64_t row, int64_t end, float* y, int64_t ldy,
                  uint8_t* scratch) {
    if constexpr (type == Type::F32 || type == Type::F16 || type == Type::BF16) {
        detail::float_tiles<Isa, type>(panel, x, row, end, y, ldy);
    } else if (end - row <= kUnpackAbove<Isa>) {
        detail::tiles<Isa, type, detail::PackedSource<Isa, type>>(panel, x, row, end, y, ldy);
    } else {
        detail::unpack_panel<Isa, type>(panel, x.cols / quant::kBlockCols, scratch);
        detail::tiles<Isa, type, detail::UnpackedSource<Isa, type>>(scratch, x, row, end, y, ldy);
    }
}

} // namespace
} // namespace hearth::cpu
