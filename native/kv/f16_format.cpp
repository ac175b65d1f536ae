#include <array>
#include <cstdint>

#include "kv/kv_format.h"

namespace hearth::kv {

namespace {

class F16Format final : public KvFormat {
public:
    explicit F16Format(const cpu::Kernels& kernels) : kernels_(kernels) {}

    std::string_view name() const noexcept override { return "f16"; }

    size_t page_bytes(int head_dim) const noexcept override {
        return static_cast<size_t>(head_dim) * cpu::kPageTokens * sizeof(uint16_t);
    }

    void write_key(std::byte* page, int slot, const float* key, int head_dim) const override {
        auto* column = reinterpret_cast<uint16_t*>(page) + slot;
        std::array<uint16_t, 64> half;
        for (int d = 0; d < head_dim; d += 64) {
            const int n = head_dim - d < 64 ? head_dim - d : 64;
            kernels_.f32_to_f16(key + d, half.data(), n);
            for (int i = 0; i < n; ++i) column[(d + i) * cpu::kPageTokens] = half[static_cast<size_t>(i)];
        }
    }

    void write_value(std::byte* page, int slot, const float* value, int head_dim) const override {
        kernels_.f32_to_f16(value, reinterpret_cast<uint16_t*>(page) + slot * head_dim, head_dim);
    }

    void read_keys(const std::byte* page, float* keys, int head_dim) const override {
        kernels_.f16_to_f32(reinterpret_cast<const uint16_t*>(page), keys, int64_t{head_dim} * cpu::kPageTokens);
    }

    void read_values(const std::byte* page, int n, float* values, int head_dim) const override {
        kernels_.f16_to_f32(reinterpret_cast<const uint16_t*>(page), values, int64_t{head_dim} * n);
    }

private:
    const cpu::Kernels& kernels_;
};

} // namespace

std::unique_ptr<KvFormat> make_f16_format(const cpu::Kernels& kernels) { return std::make_unique<F16Format>(kernels); }

} // namespace hearth::kv
