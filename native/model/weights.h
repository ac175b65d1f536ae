// A dense transformer's weights: matrices packed for the kernels, vectors as float32.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gguf/gguf_file.h"
#include "model/embedding.h"
#include "model/hparams.h"
#include "quant/packed.h"
#include "runtime/thread_pool.h"

namespace hearth::model {

struct LayerWeights {
    std::vector<float> attention_norm, feed_forward_norm; // [embedding]
    quant::PackedMatrix query, key, value;                // [heads or kv_heads * head_dim] x [embedding]
    std::vector<float> qkv_bias; // query, key, value biases in a row; empty when there are none
    std::vector<float> query_norm, key_norm; // [head_dim]; empty but for qwen3
    quant::PackedMatrix output; // [embedding] x [heads * head_dim]
    std::vector<float> output_bias; // [embedding], or empty
    quant::PackedMatrix gate, up; // [feed_forward] x [embedding]
    quant::PackedMatrix down; // [embedding] x [feed_forward]
};

struct Weights {
    HyperParams hp;
    int64_t vocab = 0;
    std::vector<LayerWeights> layers;
    std::vector<float> final_norm;
    quant::PackedMatrix head; // [vocab] x [embedding]
    std::optional<Embedding> embedding; // [vocab] x [embedding]
    std::vector<float> rope_factors;

    // Reads, checks and repacks; afterwards the file's mapping is not needed. Throws GgufError, naming the tensor or
    // key that is wrong, and what before_tensor throws: it is called before each tensor is read, on this thread.
    Weights(const gguf::File& file, runtime::ThreadPool& pool, const std::function<void()>& before_tensor);
    Weights(const Weights&) = delete; // the embedding may point to the head
    Weights& operator=(const Weights&) = delete;
};

} // namespace hearth::model
