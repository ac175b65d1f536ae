// Several weight matrices times the same activation rows, as one parallel region.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/rows.h"
#include "quant/packed.h"
#include "runtime/thread_pool.h"

namespace hearth::model {

// y[row][0..matrix rows) for every row; ldy floats between rows. Writes whole panels: up to 15 floats beyond the
// matrix's last row, so y's rows must leave room for a multiple of 16.
struct MatmulJob {
    const quant::PackedMatrix* weights;
    float* y;
    int64_t ldy;
};

class Matmul {
public:
    Matmul(const cpu::Kernels& kernels, runtime::ThreadPool& pool);
    // Grows scratch for matrices of up to `cols` columns.
    void reserve(int64_t cols);
    void operator()(std::initializer_list<MatmulJob> jobs, const cpu::Rows& x);

private:
    const cpu::Kernels& kernels_;
    runtime::ThreadPool& pool_;
    int64_t cols_ = 0;
    std::vector<quant::AlignedBytes> scratch_; // one a worker
};

} // namespace hearth::model
