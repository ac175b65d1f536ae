// Weight matrices as the CPU kernels read them: repacked once at load, same bits of information as the file.
//
// A matrix of `rows` x `cols` (one output per row) is cut into panels of 16 rows. Within a panel, columns
// go in blocks of 32, and a block's quantised values lie as 8 groups of 4 columns: group g is 64 bytes,
// byte 4 r + i belonging to row r and column 4 g + i. So one 64-byte load feeds 16 rows with the same 4
// activations, no sum crosses lanes, and each output is one chain of block sums in column order: the
// arithmetic of an output depends neither on the instruction set nor on how many activations run beside it.
//
// A value is w = s (q - zero) or w = s q - m, with q unsigned and, per row and block:
//   Q4_0 Q5_0 Q8_0   s = d                      header: none              block: d f16[16], quants
//   Q4_1 Q5_1        s = d, m = -(file's m)     header: none              block: d f16[16], m f16[16], quants
//   Q4_K Q5_K        s = d sc, m = dmin mn      header: d, dmin f16[16]   block: sc u8[16], mn u8[16], quants
//   Q6_K             s = d sc, one per 16 cols  header: d f16[16]         block: sc s8[16] twice, quants
// where a header stands before every 8 blocks. Quants: bits 0-3 of groups g and g + 4 share a 64-byte vector
// (low and high nibble), then the fifth bits (one vector, bit g of a byte for group g) or the fifth and sixth
// (two vectors, for groups 0-3 and 4-7, two bits a group). Q8_0 stores q + 128 in 8 plain vectors.
// Float types: value (row r, column k) at [k][r], 16 rows side by side.
// Rows beyond `rows` in the last panel are zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gguf/gguf_file.h"

namespace hearth::runtime {
class ThreadPool;
}

namespace hearth::quant {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlockCols = 32;
inline constexpr int kSuperBlocks = 8; // blocks behind one header in the K types
inline constexpr int kGroups = 8;
inline constexpr int kGroupBytes = 64;

// Compile-time description of a quantised type's packed form; offsets are bytes from the block's start.
template <gguf::Type type>
struct Format {
    static constexpr bool kIsK = type == gguf::Type::Q4_K || type == gguf::Type::Q5_K || type == gguf::Type::Q6_K;
    static constexpr bool kAffine =
        type == gguf::Type::Q4_1 || type == gguf::Type::Q5_1 || type == gguf::Type::Q4_K || type == gguf::Type::Q5_K;
    static constexpr bool kHalfBlockScales = type == gguf::Type::Q6_K; // a scale for each 16 columns
    static constexpr int kBits = type == gguf::Type::Q8_0                                                           ? 8
                                 : type == gguf::Type::Q6_K                                                         ? 6
                                 : type == gguf::Type::Q5_0 || type == gguf::Type::Q5_1 || type == gguf::Type::Q5_K ? 5
                                                                                                                    : 4;
    static constexpr int kZero = kAffine ? 0 : 1 << (kBits - 1); // 8, 16, 32 or 128
    static constexpr int kHeaderBytes = !kIsK ? 0 : kAffine ? 64 : 32;
    static constexpr int kScaleBytes = kIsK || !kAffine ? 32 : 64;
    static constexpr int kQuantBytes = kPanelRows * kBlockCols * kBits / 8;
    static constexpr int kBlockBytes = kScaleBytes + kQuantBytes;
    static constexpr int kBlocksPerHeader = kIsK ? kSuperBlocks : 1;
};

struct FreeAligned {
    size_t bytes = 0;
    void operator()(std::byte* p) const noexcept;
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

// Zeroed, page-aligned memory, backed by huge pages where the system grants them. Throws std::bad_alloc.
AlignedBytes allocate_pages(size_t bytes);

struct PackedMatrix {
    gguf::Type type{};
    int64_t rows = 0;
    int64_t cols = 0;
    size_t panel_bytes = 0;
    AlignedBytes data;

    int64_t n_panels() const noexcept { return (rows + kPanelRows - 1) / kPanelRows; }
    const std::byte* panel(int64_t i) const noexcept { return data.get() + static_cast<size_t>(i) * panel_bytes; }
};

// Bytes of one panel of a matrix with this many columns.
size_t packed_panel_bytes(gguf::Type type, int64_t cols);

// Repacks a two-dimensional tensor (shape[0] = columns). The tensor's file pages are given back to the
// system as they are consumed. Throws GgufError when the columns do not fill whole blocks.
PackedMatrix pack(const gguf::Tensor& tensor, runtime::ThreadPool& pool);

// One row's values, the same bits as dequantising the row that was packed. out: float[cols].
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

} // namespace hearth::quant
