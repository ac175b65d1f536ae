// Fills a kernel table from the templates, for one instruction set.
#pragma once

#include "cpu/kernels.h"
#include "cpu/ops/attention.h"
#include "cpu/ops/elementwise.h"
#include "cpu/ops/matmul.h"
#include "cpu/ops/quantise.h"

namespace hearth::cpu {
namespace {

template <class Isa>
constexpr Kernels make_table() {
    return Kernels{
        .name = Isa::kName,
        .matmul_f32 = matmul_panel<Isa, Type::F32>,
        .matmul_f16 = matmul_panel<Isa, Type::F16>,
        .matmul_bf16 = matmul_panel<Isa, Type::BF16>,
        .matmul_q4_0 = matmul_panel<Isa, Type::Q4_0>,
        .matmul_q4_1 = matmul_panel<Isa, Type::Q4_1>,
        .matmul_q5_0 = matmul_panel<Isa, Type::Q5_0>,
        .matmul_q5_1 = matmul_panel<Isa, Type::Q5_1>,
        .matmul_q8_0 = matmul_panel<Isa, Type::Q8_0>,
        .matmul_q4_k = matmul_panel<Isa, Type::Q4_K>,
        .matmul_q5_k = matmul_panel<Isa, Type::Q5_K>,
        .matmul_q6_k = matmul_panel<Isa, Type::Q6_K>,
        .quantise_row = quantise_row<Isa>,
        .rms_norm = rms_norm<Isa>,
        .add = add<Isa>,
        .silu_mul = silu_mul<Isa>,
        .rope = rope<Isa>,
        .f16_to_f32 = f16_to_f32<Isa>,
        .f32_to_f16 = f32_to_f16<Isa>,
        .attend_page = attend_page<Isa>,
    };
}

} // namespace
} // namespace hearth::cpu
