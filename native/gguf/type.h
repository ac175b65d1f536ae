// The tensor types of a GGUF file that Hearth reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hearth::gguf {

// Values are those of the file format (ggml's type numbers).
enum class Type : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30,
};

// Every type above, in order of its number.
std::span<const Type> all_types() noexcept;

// The type with this number in the file format, or nothing when Hearth does not read it.
std::optional<Type> type_from_number(uint32_t number) noexcept;

// "F32", "Q4_K", ...
std::string_view type_name(Type type) noexcept;

// Values per block (1 for the float types, 32 or 256 for the quantised ones).
int64_t block_elems(Type type) noexcept;

// Bytes per block.
size_t block_bytes(Type type) noexcept;

// Bytes of a row of n values; n must be a multiple of block_elems(type), and not negative.
// Throws std::invalid_argument otherwise, std::overflow_error when the size does not fit.
size_t row_bytes(Type type, int64_t n);

}  // namespace hearth::gguf
