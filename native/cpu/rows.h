// Activation rows as the matmul kernels take them.
#pragma once

#include <cstdint>

namespace hearth::cpu {

// `n` rows of `cols` floats and, when a quantised matrix will read them, their 8-bit form: per 32 columns a
// float32 scale d = max|x| / 127 and q = round-to-nearest-even(x / d). Plain pointers: the owner is the
// graph's workspace, and kernels compiled for one instruction set must not instantiate shared library code.
struct Rows {
    int64_t n = 0;
    int64_t cols = 0;
    const float* x = nullptr;   // [n][cols]
    int8_t* q = nullptr;        // [n][cols]
    float* d = nullptr;         // [n][cols / 32]
    float* minus_ds = nullptr;  // [n][cols / 32]: -(d * sum of the block's q), what a weight's minimum multiplies
    int32_t* sum16 = nullptr;   // [n][cols / 16]: sums of q
};

} // namespace hearth::cpu
