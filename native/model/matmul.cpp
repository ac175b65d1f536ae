#include "model/matmul.h"

#include <algorithm>

#include "cpu/scratch.h"

namespace hearth::model {

namespace {

// Activation rows are swept in blocks whose 8-bit form fits beside a panel in a core's second-level cache.
constexpr int64_t kRowBlockBytes = 1 << 20;
// A task reads at least this much of the weights, so that taking tasks costs nothing.
constexpr int64_t kTaskBytes = 64 << 10;

} // namespace

Matmul::Matmul(const cpu::Kernels& kernels, runtime::ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

void Matmul::reserve(int64_t cols) {
    if (cols <= cols_) return;
    cols_ = cols;
    scratch_.clear();
    for (int i = 0; i < pool_.size(); ++i)
        scratch_.push_back(quant::allocate_pages(static_cast<size_t>(cpu::matmul_scratch_bytes(cols))));
}

void Matmul::operator()(std::initializer_list<MatmulJob> jobs, const cpu::Rows& x) {
    struct Part {
        const MatmulJob* job;
        cpu::Kernels::MatmulPanel kernel;
        int64_t panels_per_task;
        int64_t first_task;
    };
    std::vector<Part> parts;
    int64_t tasks = 0;
    for (const MatmulJob& job : jobs) {
        const int64_t panels = job.weights->n_panels();
        const auto bytes = static_cast<int64_t>(job.weights->panel_bytes);
        // Enough tasks for every worker to even out, unless the matrix is small.
        const int64_t even = std::max<int64_t>(1, panels / (int64_t{8} * pool_.size()));
        const int64_t per_task = std::clamp<int64_t>(kTaskBytes / bytes, 1, even);
        parts.push_back({&job, kernels_.matmul(job.weights->type), per_task, tasks});
        tasks += (panels + per_task - 1) / per_task;
    }
    const int64_t row_block = std::max<int64_t>(64, kRowBlockBytes / x.cols / 8 * 8);
    for (int64_t row = 0; row < x.n; row += row_block) {
        const int64_t end = std::min(x.n, row + row_block);
        pool_.parallel_for(tasks, [&](int64_t task, int worker) {
            size_t p = parts.size() - 1;
            while (parts[p].first_task > task) --p;
            const Part& part = parts[p];
            const quant::PackedMatrix& w = *part.job->weights;
            const int64_t first = (task - part.first_task) * part.panels_per_task;
            const int64_t last = std::min(first + part.panels_per_task, w.n_panels());
            auto* scratch = reinterpret_cast<uint8_t*>(scratch_[static_cast<size_t>(worker)].get());
            for (int64_t panel = first; panel < last; ++panel)
                part.kernel(reinterpret_cast<const uint8_t*>(w.panel(panel)), x, row, end,
                            part.job->y + panel * quant::kPanelRows, part.job->ldy, scratch);
        });
    }
}

} // namespace hearth::model
