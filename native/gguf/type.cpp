#include "gguf/type.h"

#include <array>
#include <limits>
#include <stdexcept>
#include <string>

namespace hearth::gguf {
namespace {

struct Traits {
    Type type;
    std::string_view name;
    int64_t block_elems;
    size_t block_bytes;
};

constexpr std::array<Traits, 11> kTraits{{
    {Type::F32, "F32", 1, 4},
    {Type::F16, "F16", 1, 2},
    {Type::Q4_0, "Q4_0", 32, 18},
    {Type::Q4_1, "Q4_1", 32, 20},
    {Type::Q5_0, "Q5_0", 32, 22},
    {Type::Q5_1, "Q5_1", 32, 24},
    {Type::Q8_0, "Q8_0", 32, 34},
    {Type::Q4_K, "Q4_K", 256, 144},
    {Type::Q5_K, "Q5_K", 256, 176},
    {Type::Q6_K, "Q6_K", 256, 210},
    {Type::BF16, "BF16", 1, 2},
}};

constexpr auto kTypes = [] {
    std::array<Type, kTraits.size()> types{};
    for (size_t i = 0; i < types.size(); ++i) types[i] = kTraits[i].type;
    return types;
}();

// A Type only ever holds an enumerator: files go through type_from_number.
const Traits& traits(Type type) noexcept {
    size_t i = 0;
    while (i + 1 < kTraits.size() && kTraits[i].type != type) ++i;
    return kTraits[i];
}

}  // namespace

std::span<const Type> all_types() noexcept { return kTypes; }

std::optional<Type> type_from_number(uint32_t number) noexcept {
    for (const Type type : kTypes) {
        if (static_cast<uint32_t>(type) == number) return type;
    }
    return std::nullopt;
}

std::string_view type_name(Type type) noexcept { return traits(type).name; }

int64_t block_elems(Type type) noexcept { return traits(type).block_elems; }

size_t block_bytes(Type type) noexcept { return traits(type).block_bytes; }

size_t row_bytes(Type type, int64_t n) {
    const Traits& t = traits(type);
    if (n < 0 || n % t.block_elems != 0) {
        throw std::invalid_argument("a row of " + std::string(t.name) + " holds a multiple of " +
                                    std::to_string(t.block_elems) + " values, not " + std::to_string(n));
    }
    const auto blocks = static_cast<uint64_t>(n / t.block_elems);
    if (blocks > std::numeric_limits<size_t>::max() / t.block_bytes) {
        throw std::overflow_error("a row of " + std::to_string(n) + " values does not fit in memory");
    }
    return static_cast<size_t>(blocks) * t.block_bytes;
}

}  // namespace hearth::gguf
