// Hyperparameters of a dense transformer, read from GGUF metadata and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace hearth::model {

enum class RopeScaling { none, linear, yarn };

struct HyperParams {
    std::string architecture; // llama, qwen2 or qwen3
    int layers = 0;
    int embedding = 0;
    int feed_forward = 0;
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int rope_dims = 0;     // leading dimensions of a head that rotate
    bool rope_neox = true; // pairs (i, i + half); otherwise (2 i, 2 i + 1)
    float norm_eps = 0;
    int64_t context_train = 0;

    double rope_base = 10000.0;
    RopeScaling scaling = RopeScaling::none;
    double scaling_factor = 1.0;
    int64_t original_context = 0; // YaRN: the context length that the model was first trained for
    double attention_factor = 1.0;
    double yarn_ext_factor = 1.0;
    double yarn_beta_fast = 32.0;
    double yarn_beta_slow = 1.0;
};

// Throws GgufError: unknown architecture, missing or impossible values.
HyperParams read_hparams(const gguf::File& file);

// Angles of rotary embeddings.
class RopeTable {
public:
    // factors: per-pair divisors of the frequency (rope_freqs.weight), or empty.
    RopeTable(const HyperParams& hp, std::vector<float> factors);
    // out: rope_dims / 2 cosines, then as many sines, both times the scaling's magnitude.
    void fill(int64_t position, float* out) const;
    int half() const noexcept { return static_cast<int>(frequency_.size()); }

private:
    std::vector<double> frequency_; // radians per position
    double magnitude_ = 1.0;
};

} // namespace hearth::model
