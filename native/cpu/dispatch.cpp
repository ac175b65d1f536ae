#include <stdexcept>
#include <string>

#include "cpu/kernels.h"

namespace hearth::cpu {

Kernels::MatmulPanel Kernels::matmul(gguf::Type type) const {
    using gguf::Type;
    switch (type) {
        case Type::F32: return matmul_f32;
        case Type::F16: return matmul_f16;
        case Type::BF16: return matmul_bf16;
        case Type::Q4_0: return matmul_q4_0;
        case Type::Q4_1: return matmul_q4_1;
        case Type::Q5_0: return matmul_q5_0;
        case Type::Q5_1: return matmul_q5_1;
        case Type::Q8_0: return matmul_q8_0;
        case Type::Q4_K: return matmul_q4_k;
        case Type::Q5_K: return matmul_q5_k;
        case Type::Q6_K: return matmul_q6_k;
    }
    throw std::invalid_argument("no matmul kernel for tensor type " + std::to_string(static_cast<uint32_t>(type)));
}

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> out;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        out.push_back(&avx512_vnni_kernels());
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        out.push_back(&avx2_kernels());
#endif
    out.push_back(&scalar_kernels());
    return out;
}

const Kernels& kernels_by_name(std::string_view name) {
    const auto tables = available_kernels();
    if (name == "auto") return *tables.front();
    std::string have;
    for (const Kernels* k : tables) {
        if (name == k->name) return *k;
        have += (have.empty() ? "" : ", ") + std::string(k->name);
    }
    throw std::invalid_argument("instruction set '" + std::string(name) +
                                "' cannot run here; this machine has: " + have);
}

} // namespace hearth::cpu
