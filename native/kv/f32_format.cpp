#include <algorithm>

#include "kv/kv_format.h"

namespace hearth::kv {

namespace {

class F32Format final : public KvFormat {
public:
    std::string_view name() const noexcept override { return "f32"; }

    size_t page_bytes(int head_dim) const noexcept override {
        return static_cast<size_t>(head_dim) * cpu::kPageTokens * sizeof(float);
    }

    void write_key(std::byte* page, int slot, const float* key, int head_dim) const override {
        auto* column = reinterpret_cast<float*>(page) + slot;
        for (int d = 0; d < head_dim; ++d) column[d * cpu::kPageTokens] = key[d];
    }

    void write_value(std::byte* page, int slot, const float* value, int head_dim) const override {
        std::copy_n(value, head_dim, reinterpret_cast<float*>(page) + slot * head_dim);
    }

    void read_keys(const std::byte* page, float* keys, int head_dim) const override {
        std::copy_n(reinterpret_cast<const float*>(page), head_dim * cpu::kPageTokens, keys);
    }

    void read_values(const std::byte* page, int n, float* values, int head_dim) const override {
        std::copy_n(reinterpret_cast<const float*>(page), head_dim * n, values);
    }
};

} // namespace

std::unique_ptr<KvFormat> make_f32_format() { return std::make_unique<F32Format>(); }

} // namespace hearth::kv
