#include "model/transformer.h"

#include <algorithm>
#include <string>

#include "model/workspace.h"

namespace hearth::model {

namespace {

// Row-wise ops of fewer rows than this run on the calling thread: sharing them out costs more.
constexpr int64_t kSerialRows = 4;

template <typename Fn>
void for_rows(runtime::ThreadPool& pool, int64_t n, Fn&& fn) {
    if (n < kSerialRows) {
        for (int64_t i = 0; i < n; ++i) fn(i);
    } else {
        pool.parallel_for(n, fn);
    }
}

bool goes_on(const BatchRow& row) { return row.want_logits || row.want_hidden; }

bool is_float(gguf::Type type) { return gguf::block_elems(type) == 1; }

} // namespace

struct Transformer::Workspace {
    std::vector<std::byte> stored; // [n][bytes of an embedding row], as the file has them
    std::vector<float> hidden;  // [n][embedding]: the residual stream
    RowBuffer normed;           // [n][embedding]
    std::vector<float> qkv;     // [n][(heads + 2 kv_heads) * head_dim]
    RowBuffer attended;         // [n][heads * head_dim]
    std::vector<float> project; // [n][embedding]: what a block adds to the residual stream
    std::vector<float> gate_up; // [n][2 * feed_forward]
    RowBuffer activated;        // [n][feed_forward]
    std::vector<float> angles;  // [n][rope_dims]
};

Transformer::Transformer(const Weights& weights, const cpu::Kernels& kernels, runtime::ThreadPool& pool,
                         kv::KvCache& cache)
    : weights_(weights),
      hp_(weights.hp),
      kernels_(kernels),
      pool_(pool),
      cache_(cache),
      rope_(weights.hp, weights.rope_factors),
      matmul_(kernels, pool),
      attention_(kernels, pool, weights.hp.heads, cache),
      work_(std::make_unique<Workspace>()) {
    matmul_.reserve(std::max({hp_.embedding, hp_.feed_forward, hp_.heads * hp_.head_dim}));
}

Transformer::~Transformer() = default;

std::vector<RowRun> Transformer::plan(std::span<const BatchRow> rows) const {
    std::vector<RowRun> runs;
    for (size_t i = 0; i < rows.size(); ++i) {
        const BatchRow& row = rows[i];
        if (row.token < 0 || row.token >= weights_.vocab)
            throw std::invalid_argument("token " + std::to_string(row.token) + " is not in the vocabulary of " +
                                        std::to_string(weights_.vocab));
        if (runs.empty() || runs.back().seq != row.seq) {
            for (const RowRun& run : runs)
                if (run.seq == row.seq)
                    throw std::invalid_argument("the rows of sequence " + std::to_string(row.seq) +
                                                " are not adjacent");
            runs.push_back({row.seq, static_cast<int64_t>(i), cache_.length(row.seq), 0});
        }
        ++runs.back().n;
    }
    return runs;
}

Outputs Transformer::forward(std::span<const BatchRow> rows, const std::atomic<bool>& cancel) {
    if (rows.empty()) return {};
    const std::vector<RowRun> runs = plan(rows);
    std::vector<kv::Growth> growths;
    for (const RowRun& run : runs) growths.push_back({run.seq, run.n});
    cache_.reserve(growths);
    Outputs out;
    try {
        this->run(rows, runs, cancel);
        out = outputs(rows);
    } catch (...) {
        for (const RowRun& run : runs) cache_.release_reserved(run.seq);
        throw;
    }
    for (const RowRun& run : runs) cache_.commit(run.seq, run.n);
    return out;
}

void Transformer::run(std::span<const BatchRow> rows, const std::vector<RowRun>& runs,
                      const std::atomic<bool>& cancel) {
    Workspace& ws = *work_;
    auto n = static_cast<int64_t>(rows.size());
    embed(rows);
    ws.angles.resize(static_cast<size_t>(n * hp_.rope_dims));
    for (const RowRun& run : runs)
        for (int64_t i = 0; i < run.n; ++i)
            rope_.fill(run.position + i, ws.angles.data() + (run.row + i) * hp_.rope_dims);

    for (int layer = 0; layer < hp_.layers; ++layer) {
        if (cancel.load(std::memory_order_relaxed)) throw Cancelled();
        const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
        normalise(w.attention_norm, n, layer == 0 ? nullptr : ws.project.data());
        project_qkv(w, layer, runs, n);
        const int64_t width = int64_t{hp_.heads} * hp_.head_dim;
        ws.attended.resize(n, width);
        attention_(runs, layer, ws.qkv.data(), width + 2 * int64_t{hp_.kv_heads} * hp_.head_dim, ws.attended.x.data(),
                   width);
        if (layer == hp_.layers - 1) {
            // Nothing after the last attention looks at other rows: go on with those of which something is wanted.
            int64_t kept = 0;
            for (size_t i = 0; i < rows.size(); ++i)
                if (goes_on(rows[i])) {
                    std::copy_n(ws.attended.row(static_cast<int64_t>(i)), width, ws.attended.row(kept));
                    std::copy_n(ws.hidden.data() + static_cast<int64_t>(i) * hp_.embedding, hp_.embedding,
                                ws.hidden.data() + kept * hp_.embedding);
                    ++kept;
                }
            n = kept;
            if (n == 0) return;
            ws.attended.resize(n, width);
        }
        quantise(ws.attended.rows, {&w.output});
        matmul_({{&w.output, ws.project.data(), hp_.embedding}}, ws.attended.rows);
        if (!w.output_bias.empty())
            for (int64_t i = 0; i < n; ++i)
                kernels_.add(w.output_bias.data(), ws.project.data() + i * hp_.embedding, hp_.embedding);
        normalise(w.feed_forward_norm, n, ws.project.data());
        feed_forward(w, n);
    }
    normalise(weights_.final_norm, n, ws.project.data());
}

void Transformer::embed(std::span<const BatchRow> rows) {
    Workspace& ws = *work_;
    const auto n = static_cast<int64_t>(rows.size());
    const int64_t e = hp_.embedding;
    ws.hidden.resize(static_cast<size_t>(n * e));
    ws.project.resize(static_cast<size_t>(n * e));
    const Embedding& embedding = *weights_.embedding;
    embedding.require_unchanged();
    const size_t scratch = embedding.scratch_bytes();
    ws.stored.resize(static_cast<size_t>(n) * scratch);
    for_rows(pool_, n, [&](int64_t i) {
        const auto row = static_cast<size_t>(i);
        embedding.row(rows[row].token, std::span(ws.stored).subspan(row * scratch, scratch),
                      std::span(ws.hidden).subspan(row * static_cast<size_t>(e), static_cast<size_t>(e)));
    });
}

// hidden += residual (when there is one); normed = rms_norm(hidden) * weight, in float and 8-bit form.
void Transformer::normalise(const std::vector<float>& weight, int64_t n, const float* residual) {
    Workspace& ws = *work_;
    const int64_t e = hp_.embedding;
    ws.normed.resize(n, e);
    for_rows(pool_, n, [&](int64_t i) {
        float* hidden = ws.hidden.data() + i * e;
        if (residual != nullptr) kernels_.add(residual + i * e, hidden, e);
        kernels_.rms_norm(hidden, weight.data(), ws.normed.row(i), e, hp_.norm_eps);
        kernels_.quantise_row(ws.normed.rows, i);
    });
}

// Query, key and value of every row, biased, normed, rotated; keys and values go to the cache.
void Transformer::project_qkv(const LayerWeights& w, int layer, const std::vector<RowRun>& runs, int64_t n) {
    Workspace& ws = *work_;
    const int64_t d = hp_.head_dim;
    const int64_t q_width = hp_.heads * d;
    const int64_t kv_width = hp_.kv_heads * d;
    const int64_t ld = q_width + 2 * kv_width;
    ws.qkv.resize(static_cast<size_t>(n * ld));
    float* q = ws.qkv.data();
    matmul_({{&w.query, q, ld}, {&w.key, q + q_width, ld}, {&w.value, q + q_width + kv_width, ld}}, ws.normed.rows);

    const auto finish_row = [&](const RowRun& run, int64_t i) {
        float* row = q + (run.row + i) * ld;
        if (!w.qkv_bias.empty()) kernels_.add(w.qkv_bias.data(), row, ld);
        const float* angles = ws.angles.data() + (run.row + i) * hp_.rope_dims;
        for (int64_t h = 0; h < hp_.heads + hp_.kv_heads; ++h) { // keys follow the queries
            float* head = row + h * d;
            const std::vector<float>& norm = h < hp_.heads ? w.query_norm : w.key_norm;
            if (!norm.empty()) kernels_.rms_norm(head, norm.data(), head, d, hp_.norm_eps);
            kernels_.rope(head, angles, rope_.half(), hp_.rope_neox);
        }
        const int64_t position = run.position + i;
        const auto slot = static_cast<int>(position % cpu::kPageTokens);
        for (int h = 0; h < hp_.kv_heads; ++h) {
            const kv::KvFormat& format = cache_.format();
            format.write_key(cache_.key_page(run.seq, position, layer, h), slot, row + q_width + h * d, hp_.head_dim);
            format.write_value(cache_.value_page(run.seq, position, layer, h), slot, row + q_width + kv_width + h * d,
                               hp_.head_dim);
        }
    };
    for (const RowRun& run : runs) for_rows(pool_, run.n, [&](int64_t i) { finish_row(run, i); });
}

// project = down(silu(gate(normed)) * up(normed))
void Transformer::feed_forward(const LayerWeights& w, int64_t n) {
    Workspace& ws = *work_;
    const int64_t f = hp_.feed_forward;
    ws.gate_up.resize(static_cast<size_t>(n * 2 * f));
    ws.activated.resize(n, f);
    matmul_({{&w.gate, ws.gate_up.data(), 2 * f}, {&w.up, ws.gate_up.data() + f, 2 * f}}, ws.normed.rows);
    const bool needs_bytes = !is_float(w.down.type);
    for_rows(pool_, n, [&](int64_t i) {
        const float* gate = ws.gate_up.data() + i * 2 * f;
        kernels_.silu_mul(gate, gate + f, ws.activated.row(i), f);
        if (needs_bytes) kernels_.quantise_row(ws.activated.rows, i);
    });
    matmul_({{&w.down, ws.project.data(), hp_.embedding}}, ws.activated.rows);
}

void Transformer::quantise(cpu::Rows& rows, std::initializer_list<const quant::PackedMatrix*> readers) {
    if (std::all_of(readers.begin(), readers.end(), [](const auto* m) { return is_float(m->type); })) return;
    for_rows(pool_, rows.n, [&](int64_t i) { kernels_.quantise_row(rows, i); });
}

// The rows that went on lie in `normed`, in order.
Outputs Transformer::outputs(std::span<const BatchRow> rows) {
    RowBuffer& normed = work_->normed;
    const int64_t e = hp_.embedding;
    Outputs out;
    out.hidden.reserve(static_cast<size_t>(e * std::ranges::count_if(rows, &BatchRow::want_hidden)));
    int64_t i = 0;
    int64_t n = 0; // rows that want logits; they move up to stand together
    for (const BatchRow& row : rows) {
        if (!goes_on(row)) continue;
        if (row.want_hidden) out.hidden.insert(out.hidden.end(), normed.row(i), normed.row(i) + e);
        if (row.want_logits) {
            if (n != i) {
                std::copy_n(normed.row(i), e, normed.row(n));
                kernels_.quantise_row(normed.rows, n);
            }
            ++n;
        }
        ++i;
    }
    normed.resize(n, e);
    out.logits = logits(n);
    return out;
}

std::vector<float> Transformer::logits(int64_t n) {
    Workspace& ws = *work_;
    if (n == 0) return {};
    const int64_t vocab = weights_.vocab;
    const int64_t padded = weights_.head.n_panels() * quant::kPanelRows;
    std::vector<float> out(static_cast<size_t>(n * padded));
    matmul_({{&weights_.head, out.data(), padded}}, ws.normed.rows);
    if (padded != vocab) {
        for (int64_t i = 1; i < n; ++i) std::copy_n(out.data() + i * padded, vocab, out.data() + i * vocab);
        out.resize(static_cast<size_t>(n * vocab));
    }
    return out;
}

} // namespace hearth::model
