#include "model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth::model {

namespace {

constexpr int kTileTokens = 8;
constexpr int64_t kSplitTokens = 8 * cpu::kPageTokens;

int64_t splits_for(int64_t last_position) { return last_position / kSplitTokens + 1; }

} // namespace

Attention::Attention(const cpu::Kernels& kernels, runtime::ThreadPool& pool, int heads, kv::KvCache& cache)
    : kernels_(kernels), pool_(pool), cache_(cache), group_(heads / cache.kv_heads()), head_dim_(cache.head_dim()) {}

// Query rows of a tile, [token][head of the group][head_dim], scaled by 1 / sqrt(head_dim).
void Attention::gather(const Tile& tile, int kv_head, const float* q, int64_t ldq, float* to) const {
    const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
    const int64_t width = int64_t{group_} * head_dim_;
    for (int t = 0; t < tile.n; ++t) {
        const float* from = q + (tile.row + t) * ldq + kv_head * width;
        for (int64_t i = 0; i < width; ++i) to[t * width + i] = from[i] * scale;
    }
}

// Runs one split for all rows of a tile; rows that end before the split keep the state they came with.
void Attention::attend_split(const Tile& tile, int layer, int kv_head, int64_t split, const float* q,
                             cpu::SoftmaxState* state, float* acc, std::vector<float>& pages) {
    float* keys = pages.data();
    float* values = keys + int64_t{head_dim_} * cpu::kPageTokens;
    const int64_t last = tile.position + tile.n - 1;
    std::vector<int> valid(static_cast<size_t>(tile.n) * static_cast<size_t>(group_));
    for (int64_t at = split * kSplitTokens; at < (split + 1) * kSplitTokens && at <= last; at += cpu::kPageTokens) {
        // Tokens before `first` see nothing of this page.
        const auto first = static_cast<int>(std::max<int64_t>(0, at - tile.position));
        const auto most = static_cast<int>(std::min<int64_t>(cpu::kPageTokens, last - at + 1));
        cache_.format().read_keys(cache_.key_page(tile.seq, at, layer, kv_head), keys, head_dim_);
        cache_.format().read_values(cache_.value_page(tile.seq, at, layer, kv_head), most, values, head_dim_);
        for (int t = first; t < tile.n; ++t)
            for (int h = 0; h < group_; ++h)
                valid[static_cast<size_t>(t * group_ + h)] =
                    static_cast<int>(std::min<int64_t>(cpu::kPageTokens, tile.position + t - at + 1));
        const int skip = first * group_;
        kernels_.attend_page(q + int64_t{skip} * head_dim_, head_dim_, tile.n * group_ - skip, keys, values,
                             valid.data() + skip, head_dim_, state + skip, acc + int64_t{skip} * head_dim_);
    }
}

void Attention::merge(const cpu::SoftmaxState& state, const float* acc, cpu::SoftmaxState& total, float* total_acc,
                      int n) {
    if (state.l == 0.0F) return; // the split lies behind this row
    if (total.l == 0.0F) {
        total = state;
        std::copy_n(acc, n, total_acc);
        return;
    }
    const float m = std::max(total.m, state.m);
    const float a = std::exp(total.m - m);
    const float b = std::exp(state.m - m);
    total.l = total.l * a + state.l * b;
    total.m = m;
    for (int i = 0; i < n; ++i) total_acc[i] = total_acc[i] * a + acc[i] * b;
}

void Attention::finish(const Tile& tile, int kv_head, const cpu::SoftmaxState* state, const float* acc, float* out,
                       int64_t ldo) const {
    for (int t = 0; t < tile.n; ++t)
        for (int h = 0; h < group_; ++h) {
            const int r = t * group_ + h;
            float* to = out + (tile.row + t) * ldo + (int64_t{kv_head} * group_ + h) * head_dim_;
            for (int i = 0; i < head_dim_; ++i) to[i] = acc[int64_t{r} * head_dim_ + i] / state[r].l;
        }
}

void Attention::operator()(const std::vector<RowRun>& runs, int layer, const float* q, int64_t ldq, float* out,
                           int64_t ldo) {
    std::vector<Tile> tiles;
    int64_t most_splits = 1;
    for (const RowRun& run : runs)
        for (int64_t i = 0; i < run.n; i += kTileTokens) {
            const auto n = static_cast<int>(std::min<int64_t>(kTileTokens, run.n - i));
            tiles.push_back({run.seq, run.row + i, run.position + i, n});
            most_splits = std::max(most_splits, splits_for(run.position + i + n - 1));
        }
    const int kv_heads = cache_.kv_heads();
    const size_t rows = static_cast<size_t>(kTileTokens) * static_cast<size_t>(group_);
    const size_t width = rows * static_cast<size_t>(head_dim_);
    const cpu::SoftmaxState empty{-std::numeric_limits<float>::infinity(), 0.0F};
    const auto items = static_cast<int64_t>(tiles.size()) * kv_heads;

    if (items >= pool_.size() || most_splits == 1) {
        // One task a (tile, KV head), which goes through its splits itself.
        pool_.parallel_for(items, [&](int64_t item) {
            const Tile& tile = tiles[static_cast<size_t>(item / kv_heads)];
            const auto head = static_cast<int>(item % kv_heads);
            std::vector<float> pages(2 * static_cast<size_t>(head_dim_) * cpu::kPageTokens);
            std::vector<float> queries(width);
            std::vector<float> acc(width);
            std::vector<float> total_acc(width);
            std::vector<cpu::SoftmaxState> total(rows, empty);
            gather(tile, head, q, ldq, queries.data());
            for (int64_t split = 0; split < splits_for(tile.position + tile.n - 1); ++split) {
                std::vector<cpu::SoftmaxState> state(rows, empty);
                std::fill(acc.begin(), acc.end(), 0.0F);
                attend_split(tile, layer, head, split, queries.data(), state.data(), acc.data(), pages);
                for (int r = 0; r < tile.n * group_; ++r)
                    merge(state[static_cast<size_t>(r)], acc.data() + int64_t{r} * head_dim_,
                          total[static_cast<size_t>(r)], total_acc.data() + int64_t{r} * head_dim_, head_dim_);
            }
            finish(tile, head, total.data(), total_acc.data(), out, ldo);
        });
        return;
    }
    // Few rows and a long context: a task a (tile, KV head, split), then the same merge in the same order.
    const auto parts = static_cast<size_t>(items * most_splits);
    std::vector<float> acc(parts * width, 0.0F);
    std::vector<cpu::SoftmaxState> state(parts * rows, empty);
    pool_.parallel_for(static_cast<int64_t>(parts), [&](int64_t part) {
        const int64_t item = part / most_splits;
        const int64_t split = part % most_splits;
        const Tile& tile = tiles[static_cast<size_t>(item / kv_heads)];
        const auto head = static_cast<int>(item % kv_heads);
        std::vector<float> pages(2 * static_cast<size_t>(head_dim_) * cpu::kPageTokens);
        std::vector<float> queries(width);
        gather(tile, head, q, ldq, queries.data());
        attend_split(tile, layer, head, split, queries.data(), state.data() + static_cast<size_t>(part) * rows,
                     acc.data() + static_cast<size_t>(part) * width, pages);
    });
    pool_.parallel_for(items, [&](int64_t item) {
        const Tile& tile = tiles[static_cast<size_t>(item / kv_heads)];
        std::vector<float> total_acc(width);
        std::vector<cpu::SoftmaxState> total(rows, empty);
        for (int64_t split = 0; split < most_splits; ++split) {
            const auto part = static_cast<size_t>(item * most_splits + split);
            for (int r = 0; r < tile.n * group_; ++r)
                merge(state[part * rows + static_cast<size_t>(r)], acc.data() + part * width + int64_t{r} * head_dim_,
                      total[static_cast<size_t>(r)], total_acc.data() + int64_t{r} * head_dim_, head_dim_);
        }
        finish(tile, static_cast<int>(item % kv_heads), total.data(), total_acc.data(), out, ldo);
    });
}

} // namespace hearth::model
