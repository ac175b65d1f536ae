#include "quant/packed.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>

#include "quant/blocks.h"
#include "quant/half.h"
#include "runtime/thread_pool.h"

namespace hearth::quant {

using gguf::Type;

void FreeAligned::operator()(std::byte* p) const noexcept { munmap(p, bytes); }

AlignedBytes allocate_pages(size_t bytes) {
    if (bytes == 0) bytes = 1;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    madvise(p, bytes, MADV_HUGEPAGE); // only a hint: a refusal changes nothing but speed
    return AlignedBytes(static_cast<std::byte*>(p), FreeAligned{bytes});
}

namespace {

// One row's block of 32 columns: quantised values and, for the types that store them per block, halves.
struct RowBlock {
    std::array<uint8_t, kBlockCols> q;
    uint16_t d = 0;
    uint16_t m = 0;
};

void nibbles(const uint8_t* qs, uint8_t* q) {
    for (int j = 0; j < 16; ++j) {
        q[j] = qs[j] & 15;
        q[j + 16] = qs[j] >> 4;
    }
}

void fifth_bits(const uint8_t* qh, uint8_t* q) {
    uint32_t bits;
    std::memcpy(&bits, qh, 4);
    for (int j = 0; j < kBlockCols; ++j) q[j] = static_cast<uint8_t>(q[j] | (((bits >> j) & 1U) << 4));
}

template <Type type>
RowBlock read_block(const std::byte* src) {
    RowBlock out;
    if constexpr (type == Type::Q4_0) {
        BlockQ4_0 b;
        std::memcpy(&b, src, sizeof b);
        nibbles(b.qs, out.q.data());
        out.d = b.d;
    } else if constexpr (type == Type::Q4_1) {
        BlockQ4_1 b;
        std::memcpy(&b, src, sizeof b);
        nibbles(b.qs, out.q.data());
        out.d = b.d;
        out.m = b.m ^ 0x8000U;
    } else if constexpr (type == Type::Q5_0) {
        BlockQ5_0 b;
        std::memcpy(&b, src, sizeof b);
        nibbles(b.qs, out.q.data());
        fifth_bits(b.qh, out.q.data());
        out.d = b.d;
    } else if constexpr (type == Type::Q5_1) {
        BlockQ5_1 b;
        std::memcpy(&b, src, sizeof b);
        nibbles(b.qs, out.q.data());
        fifth_bits(b.qh, out.q.data());
        out.d = b.d;
        out.m = b.m ^ 0x8000U;
    } else {
        static_assert(type == Type::Q8_0);
        BlockQ8_0 b;
        std::memcpy(&b, src, sizeof b);
        for (int j = 0; j < kBlockCols; ++j) out.q[static_cast<size_t>(j)] = static_cast<uint8_t>(b.qs[j] + 128);
        out.d = b.d;
    }
    return out;
}

// Writes one row's 32 values into a block's quant vectors, four columns (one group) at a time.
template <int kBits>
void write_quants(uint8_t* dst, int row, const uint8_t* q) {
    std::array<uint32_t, kGroups> group; // byte i of group[g] is the value of column 4 g + i
    std::memcpy(group.data(), q, kBlockCols);
    const auto put = [&](int vector, uint32_t bytes) { std::memcpy(dst + vector * kGroupBytes + 4 * row, &bytes, 4); };
    if constexpr (kBits == 8) {
        for (int g = 0; g < kGroups; ++g) put(g, group[static_cast<size_t>(g)]);
        return;
    }
    constexpr uint32_t kLow = 0x0F0F0F0FU;
    for (size_t g = 0; g < 4; ++g) put(static_cast<int>(g), (group[g] & kLow) | ((group[g + 4] & kLow) << 4));
    if constexpr (kBits == 5) {
        uint32_t high = 0;
        for (size_t g = 0; g < kGroups; ++g) high |= ((group[g] >> 4) & 0x01010101U) << g;
        put(4, high);
    }
    if constexpr (kBits == 6) {
        for (size_t half = 0; half < 2; ++half) {
            uint32_t high = 0;
            for (size_t g = 0; g < 4; ++g) high |= ((group[4 * half + g] >> 4) & 0x03030303U) << (2 * g);
            put(4 + static_cast<int>(half), high);
        }
    }
}

void put_half(uint8_t* dst, int row, uint16_t h) { std::memcpy(dst + 2 * row, &h, 2); }

template <Type type>
void pack_row_plain(const std::byte* src, int64_t cols, int row, uint8_t* panel) {
    using F = Format<type>;
    const size_t step = gguf::block_bytes(type);
    for (int64_t b = 0; b < cols / kBlockCols; ++b, src += step, panel += F::kBlockBytes) {
        const RowBlock block = read_block<type>(src);
        put_half(panel, row, block.d);
        if constexpr (F::kAffine) put_half(panel + 32, row, block.m);
        write_quants<F::kBits>(panel + F::kScaleBytes, row, block.q.data());
    }
}

template <Type type, typename Block>
void pack_row_k45(const std::byte* src, int64_t cols, int row, uint8_t* panel) {
    using F = Format<type>;
    std::array<uint8_t, kBlockCols> q;
    for (int64_t s = 0; s < cols / 256; ++s, src += sizeof(Block)) {
        Block b;
        std::memcpy(&b, src, sizeof b);
        put_half(panel, row, b.d);
        put_half(panel + 32, row, b.dmin);
        panel += F::kHeaderBytes;
        for (int j = 0; j < kSuperBlocks; ++j, panel += F::kBlockBytes) {
            const ScaleMin sm = scale_min(b.scales, j);
            panel[row] = sm.scale;
            panel[16 + row] = sm.min;
            for (int l = 0; l < kBlockCols; ++l) {
                const uint8_t byte = b.qs[32 * (j / 2) + l];
                int value = j % 2 == 0 ? byte & 15 : byte >> 4;
                if constexpr (type == Type::Q5_K) value |= ((b.qh[l] >> j) & 1) << 4;
                q[static_cast<size_t>(l)] = static_cast<uint8_t>(value);
            }
            write_quants<F::kBits>(panel + F::kScaleBytes, row, q.data());
        }
    }
}

void pack_row_q6k(const std::byte* src, int64_t cols, int row, uint8_t* panel) {
    using F = Format<Type::Q6_K>;
    std::array<uint8_t, kBlockCols> q;
    for (int64_t s = 0; s < cols / 256; ++s, src += sizeof(BlockQ6_K)) {
        BlockQ6_K b;
        std::memcpy(&b, src, sizeof b);
        put_half(panel, row, b.d);
        panel += F::kHeaderBytes;
        for (int j = 0; j < kSuperBlocks; ++j, panel += F::kBlockBytes) {
            panel[row] = static_cast<uint8_t>(b.scales[2 * j]);
            panel[16 + row] = static_cast<uint8_t>(b.scales[2 * j + 1]);
            const int half = j / 4;
            const int group = j % 4;
            for (int l = 0; l < kBlockCols; ++l) {
                const uint8_t low = b.ql[64 * half + 32 * (group % 2) + l];
                const int nibble = group < 2 ? low & 15 : low >> 4;
                const int top = (b.qh[32 * half + l] >> (2 * group)) & 3;
                q[static_cast<size_t>(l)] = static_cast<uint8_t>(nibble | (top << 4));
            }
            write_quants<F::kBits>(panel + F::kScaleBytes, row, q.data());
        }
    }
}

template <typename T>
void pack_row_float(const std::byte* src, int64_t cols, int row, uint8_t* panel) {
    for (int64_t k = 0; k < cols; ++k)
        std::memcpy(panel + (k * kPanelRows + row) * static_cast<int64_t>(sizeof(T)),
                    src + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

void pack_row(Type type, const std::byte* src, int64_t cols, int row, uint8_t* panel) {
    switch (type) {
        case Type::F32: return pack_row_float<float>(src, cols, row, panel);
        case Type::F16:
        case Type::BF16: return pack_row_float<uint16_t>(src, cols, row, panel);
        case Type::Q4_0: return pack_row_plain<Type::Q4_0>(src, cols, row, panel);
        case Type::Q4_1: return pack_row_plain<Type::Q4_1>(src, cols, row, panel);
        case Type::Q5_0: return pack_row_plain<Type::Q5_0>(src, cols, row, panel);
        case Type::Q5_1: return pack_row_plain<Type::Q5_1>(src, cols, row, panel);
        case Type::Q8_0: return pack_row_plain<Type::Q8_0>(src, cols, row, panel);
        case Type::Q4_K: return pack_row_k45<Type::Q4_K, BlockQ4_K>(src, cols, row, panel);
        case Type::Q5_K: return pack_row_k45<Type::Q5_K, BlockQ5_K>(src, cols, row, panel);
        case Type::Q6_K: return pack_row_q6k(src, cols, row, panel);
    }
}

template <Type type>
size_t quantised_panel_bytes(int64_t cols) {
    using F = Format<type>;
    const auto blocks = static_cast<size_t>(cols / kBlockCols);
    return blocks * F::kBlockBytes + blocks / F::kBlocksPerHeader * F::kHeaderBytes;
}

// File pages that lie wholly inside [begin, end) are dropped from memory; they can be read again.
void drop_file_pages(const std::byte* begin, const std::byte* end) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
    const auto last = reinterpret_cast<uintptr_t>(end) / page * page;
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

} // namespace

size_t packed_panel_bytes(Type type, int64_t cols) {
    switch (type) {
        case Type::F32: return static_cast<size_t>(cols) * kPanelRows * 4;
        case Type::F16:
        case Type::BF16: return static_cast<size_t>(cols) * kPanelRows * 2;
        case Type::Q4_0: return quantised_panel_bytes<Type::Q4_0>(cols);
        case Type::Q4_1: return quantised_panel_bytes<Type::Q4_1>(cols);
        case Type::Q5_0: return quantised_panel_bytes<Type::Q5_0>(cols);
        case Type::Q5_1: return quantised_panel_bytes<Type::Q5_1>(cols);
        case Type::Q8_0: return quantised_panel_bytes<Type::Q8_0>(cols);
        case Type::Q4_K: return quantised_panel_bytes<Type::Q4_K>(cols);
        case Type::Q5_K: return quantised_panel_bytes<Type::Q5_K>(cols);
        case Type::Q6_K: return quantised_panel_bytes<Type::Q6_K>(cols);
    }
    throw gguf::GgufError("tensor type without a packed form");
}

PackedMatrix pack(const gguf::Tensor& tensor, runtime::ThreadPool& pool) {
    PackedMatrix out;
    out.type = tensor.type;
    out.cols = tensor.shape[0];
    out.rows = tensor.n_rows();
    const bool is_float = gguf::block_elems(tensor.type) == 1;
    if (!is_float && out.cols % gguf::block_elems(tensor.type) != 0)
        throw gguf::GgufError("tensor " + tensor.name + ": " + std::to_string(out.cols) +
                              " columns do not fill whole blocks of " + std::string(gguf::type_name(tensor.type)));
    out.panel_bytes = packed_panel_bytes(out.type, out.cols);
    out.data = allocate_pages(out.panel_bytes * static_cast<size_t>(out.n_panels()));
    const size_t row_bytes = gguf::row_bytes(tensor.type, out.cols);
    constexpr int64_t kPanelsPerTask = 8;
    pool.parallel_for((out.n_panels() + kPanelsPerTask - 1) / kPanelsPerTask, [&](int64_t task) {
        const int64_t first = task * kPanelsPerTask * kPanelRows;
        const int64_t last = std::min(first + kPanelsPerTask * kPanelRows, out.rows);
        for (int64_t row = first; row < last; ++row) {
            auto* panel =
                reinterpret_cast<uint8_t*>(out.data.get()) + static_cast<size_t>(row / kPanelRows) * out.panel_bytes;
            pack_row(out.type, tensor.data + static_cast<size_t>(row) * row_bytes, out.cols,
                     static_cast<int>(row % kPanelRows), panel);
        }
        drop_file_pages(tensor.data + static_cast<size_t>(first) * row_bytes,
                        tensor.data + static_cast<size_t>(last) * row_bytes);
    });
    return out;
}

} // namespace hearth::quant
