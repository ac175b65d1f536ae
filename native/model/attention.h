// Causal attention of a batch of rows over the paged KV cache.
//
// The rule that fixes every row's bits: pages in position order; every 8 pages (512 positions, counted from
// position 0) make a split with a softmax state of its own; splits are merged in order. The rule looks at
// positions only, so a row's result depends neither on its neighbours nor on how work is shared out.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "kv/kv_cache.h"
#include "runtime/thread_pool.h"

namespace hearth::model {

// Consecutive rows of one sequence at consecutive positions.
struct RowRun {
    int seq;
    int64_t row;      // first row in the batch
    int64_t position; // of that row
    int64_t n;
};

class Attention {
public:
    Attention(const cpu::Kernels& kernels, runtime::ThreadPool& pool, int heads, kv::KvCache& cache);

    // q, out: [rows][heads * head_dim], ldq and ldo floats between rows. The rows' own keys and values are already
    // in the cache.
    void operator()(const std::vector<RowRun>& runs, int layer, const float* q, int64_t ldq, float* out, int64_t ldo);

private:
    struct Tile { // up to kTileTokens rows of a run
        int seq;
        int64_t row;
        int64_t position;
        int n;
    };

    void attend_split(const Tile& tile, int layer, int kv_head, int64_t split, const float* q, cpu::SoftmaxState* state,
                      float* acc, std::vector<float>& pages);
    void gather(const Tile& tile, int kv_head, const float* q, int64_t ldq, float* to) const;
    static void merge(const cpu::SoftmaxState& state, const float* acc, cpu::SoftmaxState& total, float* total_acc,
                      int n);
    void finish(const Tile& tile, int kv_head, const cpu::SoftmaxState* state, const float* acc, float* out,
                int64_t ldo) const;

    const cpu::Kernels& kernels_;
    runtime::ThreadPool& pool_;
    kv::KvCache& cache_;
    int group_; // query heads that share a KV head
    int head_dim_;
};

} // namespace hearth::model
