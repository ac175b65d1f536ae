// How keys and values lie in a page of 64 positions, for one layer and one KV head.
//
// A format is only storage: attention reads whole pages expanded to float32, keys transposed. Adding one
// means implementing this interface; nothing else knows what a page holds.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "cpu/kernels.h"

namespace hearth::kv {

class KvFormat {
public:
    virtual ~KvFormat() = default;
    virtual std::string_view name() const noexcept = 0;
    // Bytes of one head's keys (as many again for its values) in a page.
    virtual size_t page_bytes(int head_dim) const noexcept = 0;
    // Stores head_dim floats at position `slot` (0 to 63) of a page.
    virtual void write_key(std::byte* page, int slot, const float* key, int head_dim) const = 0;
    virtual void write_value(std::byte* page, int slot, const float* value, int head_dim) const = 0;
    // keys: float[head_dim][64]; positions never written hold arbitrary values.
    virtual void read_keys(const std::byte* page, float* keys, int head_dim) const = 0;
    // values: float[n][head_dim], the first n positions.
    virtual void read_values(const std::byte* page, int n, float* values, int head_dim) const = 0;
};

// IEEE half precision, rounded to nearest even.
std::unique_ptr<KvFormat> make_f16_format(const cpu::Kernels& kernels);
// Exact; twice the memory. What the other formats are measured against.
std::unique_ptr<KvFormat> make_f32_format();

// By name. Throws std::invalid_argument, naming the formats there are.
std::unique_ptr<KvFormat> make_format(std::string_view name, const cpu::Kernels& kernels);

} // namespace hearth::kv
