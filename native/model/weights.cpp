#include "model/weights.h"

#include <string>

#include "quant/dequant.h"

namespace hearth::model {

namespace {

using gguf::GgufError;

std::vector<float> dequantise(const gguf::Tensor& t) {
    std::vector<float> out(static_cast<size_t>(t.shape[0] * t.n_rows()));
    quant::dequantize_row(t.type, t.data, out.data(), static_cast<int64_t>(out.size()));
    return out;
}

class Loader {
public:
    Loader(const gguf::File& file, runtime::ThreadPool& pool, const std::function<void()>& before_tensor)
        : file_(file), pool_(pool), before_tensor_(before_tensor) {}

    std::vector<float> vector(const std::string& name, int64_t n) const {
        const gguf::Tensor& t = file_.tensor(name);
        check(t, n, 1);
        before_tensor_();
        return dequantise(t);
    }
    std::vector<float> optional_vector(const std::string& name, int64_t n) const {
        return file_.find_tensor(name) == nullptr ? std::vector<float>{} : vector(name, n);
    }
    quant::PackedMatrix matrix(const std::string& name, int64_t cols, int64_t rows) const {
        const gguf::Tensor& t = file_.tensor(name);
        check(t, cols, rows);
        before_tensor_();
        return quant::pack(t, pool_);
    }
    static void check(const gguf::Tensor& t, int64_t cols, int64_t rows) {
        if (t.shape[0] != cols || t.n_rows() != rows)
            throw GgufError("tensor " + t.name + " is " + std::to_string(t.shape[0]) + " x " +
                            std::to_string(t.n_rows()) + "; the model's hyperparameters ask for " +
                            std::to_string(cols) + " x " + std::to_string(rows));
    }

private:
    const gguf::File& file_;
    runtime::ThreadPool& pool_;
    const std::function<void()>& before_tensor_;
};

LayerWeights load_layer(const Loader& load, const HyperParams& hp, int layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const int64_t e = hp.embedding;
    const int64_t q = int64_t{hp.heads} * hp.head_dim;
    const int64_t kv = int64_t{hp.kv_heads} * hp.head_dim;
    LayerWeights w;
    w.attention_norm = load.vector(blk + "attn_norm.weight", e);
    w.query = load.matrix(blk + "attn_q.weight", e, q);
    w.key = load.matrix(blk + "attn_k.weight", e, kv);
    w.value = load.matrix(blk + "attn_v.weight", e, kv);
    const std::vector<float> bias[] = {load.optional_vector(blk + "attn_q.bias", q),
                                       load.optional_vector(blk + "attn_k.bias", kv),
                                       load.optional_vector(blk + "attn_v.bias", kv)};
    for (const auto& part : bias) w.qkv_bias.insert(w.qkv_bias.end(), part.begin(), part.end());
    if (!w.qkv_bias.empty() && static_cast<int64_t>(w.qkv_bias.size()) != q + 2 * kv)
        throw GgufError(blk + "attn_q, attn_k and attn_v: some have a bias and some have not");
    if (hp.architecture == "qwen3") {
        w.query_norm = load.vector(blk + "attn_q_norm.weight", hp.head_dim);
        w.key_norm = load.vector(blk + "attn_k_norm.weight", hp.head_dim);
    }
    w.output = load.matrix(blk + "attn_output.weight", q, e);
    w.output_bias = load.optional_vector(blk + "attn_output.bias", e);
    w.feed_forward_norm = load.vector(blk + "ffn_norm.weight", e);
    w.gate = load.matrix(blk + "ffn_gate.weight", e, hp.feed_forward);
    w.up = load.matrix(blk + "ffn_up.weight", e, hp.feed_forward);
    w.down = load.matrix(blk + "ffn_down.weight", hp.feed_forward, e);
    return w;
}

} // namespace

Weights::Weights(const gguf::File& file, runtime::ThreadPool& pool, const std::function<void()>& before_tensor)
    : hp(read_hparams(file)) {
    file.source()->require_unchanged(); // a file that is shorter by now must not be read as mapped
    const Loader load(file, pool, before_tensor);
    const gguf::Tensor& table = file.tensor("token_embd.weight");
    vocab = table.n_rows();
    if (vocab > INT32_MAX) throw GgufError("token_embd.weight has more rows than token ids can number");
    Loader::check(table, hp.embedding, vocab);
    if (file.find_tensor("blk.0.ffn_gate_inp.weight") != nullptr)
        throw GgufError("this is a mixture-of-experts model; this engine runs dense models only");
    layers.reserve(static_cast<size_t>(hp.layers));
    for (int i = 0; i < hp.layers; ++i) layers.push_back(load_layer(load, hp, i));
    final_norm = load.vector("output_norm.weight", hp.embedding);
    const bool tied = file.find_tensor("output.weight") == nullptr;
    head = load.matrix(tied ? "token_embd.weight" : "output.weight", hp.embedding, vocab);
    if (tied) {
        embedding.emplace(head);
    } else {
        embedding.emplace(table, file.source());
    }
    if (const gguf::Tensor* factors = file.find_tensor("rope_freqs.weight"); factors != nullptr)
        rope_factors = dequantise(*factors);
    file.source()->require_unchanged(); // half of one file and half of another is no model
}

} // namespace hearth::model
