// The dense transformer of llama, qwen2 and qwen3: one graph, written once, over a kernel table.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "cpu/kernels.h"
#include "kv/kv_cache.h"
#include "model/attention.h"
#include "model/matmul.h"
#include "model/weights.h"
#include "runtime/thread_pool.h"

namespace hearth::model {

// forward was told to stop; the sequences are as before the call.
class Cancelled : public std::runtime_error {
public:
    Cancelled() : std::runtime_error("cancelled") {}
};

// One token to append. Rows of a sequence follow each other in a batch.
struct BatchRow {
    int seq;
    int32_t token;
    bool want_logits;
    bool want_hidden; // the state that logits are made from: after the last layer, normalised
};

// What a forward gives of the rows that want it, in row order.
struct Outputs {
    std::vector<float> logits; // [rows][vocab]
    std::vector<float> hidden; // [rows][embedding]
};

class Transformer {
public:
    // cache: shaped for these weights. All references outlive the transformer.
    Transformer(const Weights& weights, const cpu::Kernels& kernels, runtime::ThreadPool& pool, kv::KvCache& cache);
    ~Transformer();

    // Appends the rows to their sequences. Throws Cancelled (checked once a layer), kv::OutOfPages, std::invalid_argument (token or sequence out of
    // range, a sequence's rows not adjacent), std::bad_alloc; then no sequence has changed. Positions beyond the
    // context length that the model was trained for are the caller's to refuse.
    Outputs forward(std::span<const BatchRow> rows, const std::atomic<bool>& cancel);

private:
    struct Workspace;

    std::vector<RowRun> plan(std::span<const BatchRow> rows) const;
    void run(std::span<const BatchRow> rows, const std::vector<RowRun>& runs, const std::atomic<bool>& cancel);
    void embed(std::span<const BatchRow> rows);
    void normalise(const std::vector<float>& weight, int64_t n, const float* residual);
    void project_qkv(const LayerWeights& w, int layer, const std::vector<RowRun>& runs, int64_t n);
    void feed_forward(const LayerWeights& w, int64_t n);
    void quantise(cpu::Rows& rows, std::initializer_list<const quant::PackedMatrix*> readers);
    Outputs outputs(std::span<const BatchRow> rows);
    std::vector<float> logits(int64_t n);

    const Weights& weights_;
    const HyperParams& hp_;
    const cpu::Kernels& kernels_;
    runtime::ThreadPool& pool_;
    kv::KvCache& cache_;
    RopeTable rope_;
    Matmul matmul_;
    Attention attention_;
    std::unique_ptr<Workspace> work_;
};

} // namespace hearth::model
