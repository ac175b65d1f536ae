// The CPU kernels of one instruction set, as a table. Which table runs is chosen once, at load.
//
// Every table gives the same bits for the same input (tests/native/cpu); they differ in speed alone.
// To add an instruction set: a vocabulary in isa/, a kernels_NAME.cpp that fills the table, a line in
// dispatch.cpp and one in CMakeLists.txt.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cpu/rows.h"
#include "gguf/type.h"

namespace hearth::cpu {

inline constexpr int kPageTokens = 64; // positions of one KV page, and of one attention block

// Running softmax of one query row: the maximum so far and the sum of e^(score - m).
struct SoftmaxState {
    float m;
    float l;
};

// Contracts stand at the templates in ops/.
struct Kernels {
    // y[row][0..16) = W[panel] . x[row], rows [row, end)
    using MatmulPanel = void (*)(const uint8_t* panel, const Rows& x, int64_t row, int64_t end, float* y, int64_t ldy,
                                 uint8_t* scratch);

    const char* name;
    MatmulPanel matmul_f32, matmul_f16, matmul_bf16;
    MatmulPanel matmul_q4_0, matmul_q4_1, matmul_q5_0, matmul_q5_1, matmul_q8_0;
    MatmulPanel matmul_q4_k, matmul_q5_k, matmul_q6_k;
    void (*quantise_row)(const Rows& rows, int64_t row);
    void (*rms_norm)(const float* x, const float* weight, float* y, int64_t n, float eps);
    void (*add)(const float* x, float* y, int64_t n);
    void (*silu_mul)(const float* gate, const float* up, float* y, int64_t n);
    void (*rope)(float* x, const float* cos_sin, int64_t half, bool neox);
    void (*f16_to_f32)(const uint16_t* x, float* y, int64_t n);
    void (*f32_to_f16)(const float* x, uint16_t* y, int64_t n);
    void (*attend_page)(const float* q, int64_t ldq, int n, const float* keys, const float* values, const int* valid,
                        int head_dim, SoftmaxState* state, float* acc);

    MatmulPanel matmul(gguf::Type type) const;
};

const Kernels& scalar_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_vnni_kernels();
#endif

// Tables that this machine can run, fastest first; the last is always the scalar one.
std::vector<const Kernels*> available_kernels();

// By name, or the fastest for "auto". Throws std::invalid_argument, naming what this machine has.
const Kernels& kernels_by_name(std::string_view name);

} // namespace hearth::cpu
