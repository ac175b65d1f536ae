#include <array>
#include <cstring>

#include "quant/half.h"
#include "quant/packed.h"

namespace hearth::quant {

namespace {

using gguf::Type;

uint16_t half_bits(const uint8_t* halves, int row) {
    uint16_t h;
    std::memcpy(&h, halves + 2 * row, 2);
    return h;
}

// The unsigned value of one row and column; `quants` are a block's vectors.
template <int kBits>
int quant_at(const uint8_t* quants, int row, int column) {
    const int group = column / 4;
    const int byte = 4 * row + column % 4; // of every vector
    if constexpr (kBits == 8) return quants[group * kGroupBytes + byte];
    const uint8_t nibbles = quants[group % 4 * kGroupBytes + byte];
    int value = group < 4 ? nibbles & 15 : nibbles >> 4;
    if constexpr (kBits == 5) value |= ((quants[4 * kGroupBytes + byte] >> group) & 1) << 4;
    if constexpr (kBits == 6) value |= ((quants[(4 + group / 4) * kGroupBytes + byte] >> (2 * (group % 4))) & 3) << 4;
    return value;
}

template <Type type>
void unpack_quantised(const uint8_t* panel, int row, int64_t cols, float* out) {
    using F = Format<type>;
    float d = 0;
    float dmin = 0;
    for (int64_t block = 0; block < cols / kBlockCols; ++block, panel += F::kBlockBytes, out += kBlockCols) {
        if (F::kIsK && block % kSuperBlocks == 0) {
            d = f16_to_f32(half_bits(panel, row));
            if (F::kAffine) dmin = f16_to_f32(half_bits(panel + 32, row));
            panel += F::kHeaderBytes;
        }
        std::array<float, 2> scale{}; // of either half
        float offset = 0;
        if constexpr (!F::kIsK) {
            scale.fill(f16_to_f32(half_bits(panel, row)));
            if constexpr (F::kAffine) offset = f16_to_f32(half_bits(panel + 32, row) ^ 0x8000U);
        } else if constexpr (F::kAffine) {
            scale.fill(d * static_cast<float>(panel[row]));
            offset = -(dmin * static_cast<float>(panel[16 + row]));
        } else {
            for (int half = 0; half < 2; ++half)
                scale[static_cast<size_t>(half)] = d * static_cast<float>(static_cast<int8_t>(panel[16 * half + row]));
        }
        for (int j = 0; j < kBlockCols; ++j) {
            const int q = quant_at<F::kBits>(panel + F::kScaleBytes, row, j) - F::kZero;
            const float product = scale[static_cast<size_t>(j / 16)] * static_cast<float>(q);
            out[j] = F::kAffine ? product + offset : product;
        }
    }
}

template <typename T, typename Convert>
void unpack_floats(const uint8_t* panel, int row, int64_t cols, float* out, Convert&& convert) {
    for (int64_t k = 0; k < cols; ++k) {
        T value;
        std::memcpy(&value, panel + (k * kPanelRows + row) * static_cast<int64_t>(sizeof(T)), sizeof(T));
        out[k] = convert(value);
    }
}

} // namespace

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
    const auto* panel = reinterpret_cast<const uint8_t*>(matrix.panel(row / kPanelRows));
    const auto r = static_cast<int>(row % kPanelRows);
    const int64_t cols = matrix.cols;
    switch (matrix.type) {
        case Type::F32: return unpack_floats<float>(panel, r, cols, out, [](float x) { return x; });
        case Type::F16: return unpack_floats<uint16_t>(panel, r, cols, out, f16_to_f32);
        case Type::BF16: return unpack_floats<uint16_t>(panel, r, cols, out, bf16_to_f32);
        case Type::Q4_0: return unpack_quantised<Type::Q4_0>(panel, r, cols, out);
        case Type::Q4_1: return unpack_quantised<Type::Q4_1>(panel, r, cols, out);
        case Type::Q5_0: return unpack_quantised<Type::Q5_0>(panel, r, cols, out);
        case Type::Q5_1: return unpack_quantised<Type::Q5_1>(panel, r, cols, out);
        case Type::Q8_0: return unpack_quantised<Type::Q8_0>(panel, r, cols, out);
        case Type::Q4_K: return unpack_quantised<Type::Q4_K>(panel, r, cols, out);
        case Type::Q5_K: return unpack_quantised<Type::Q5_K>(panel, r, cols, out);
        case Type::Q6_K: return unpack_quantised<Type::Q6_K>(panel, r, cols, out);
    }
}

} // namespace hearth::quant
