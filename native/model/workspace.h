// Buffers of one forward pass, grown to the largest batch seen and kept.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/rows.h"
#include "model/hparams.h"

namespace hearth::model {

// Activation rows with room for their 8-bit form.
class RowBuffer {
public:
    cpu::Rows rows;
    std::vector<float> x;

    void resize(int64_t n, int64_t cols) {
        const auto values = static_cast<size_t>(n * cols);
        if (x.size() < values) {
            q_.resize(values);
            d_.resize(values / 32);
            minus_ds_.resize(values / 32);
            sum16_.resize(values / 16);
            x.resize(values); // last, as its size tells what there is room for: memory may run out before
        }
        rows = cpu::Rows{n, cols, x.data(), q_.data(), d_.data(), minus_ds_.data(), sum16_.data()};
    }
    float* row(int64_t i) { return x.data() + i * rows.cols; }

private:
    std::vector<int8_t> q_;
    std::vector<float> d_;
    std::vector<float> minus_ds_;
    std::vector<int32_t> sum16_;
};

} // namespace hearth::model
