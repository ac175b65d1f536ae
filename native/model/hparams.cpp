#include "model/hparams.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hearth::model {

namespace {

using gguf::GgufError;

int bounded(const gguf::File& file, const std::string& key, uint64_t value, uint64_t low, uint64_t high) {
    if (value < low || value > high)
        throw GgufError(key + " is " + std::to_string(value) + "; this engine takes " + std::to_string(low) + " to " +
                        std::to_string(high) + " (" + file.path() + ")");
    return static_cast<int>(value);
}

RopeScaling read_scaling(const gguf::File& file, const std::string& key) {
    const std::string kind = file.string(key, "linear");
    if (kind == "none") return RopeScaling::none;
    if (kind == "linear") return RopeScaling::linear;
    if (kind == "yarn") return RopeScaling::yarn;
    throw GgufError(key + " is '" + kind + "'; this engine knows none, linear and yarn");
}

} // namespace

std::vector<std::string> architectures() { return {"llama", "qwen2", "qwen3"}; }

HyperParams read_hparams(const gguf::File& file) {
    HyperParams hp;
    hp.architecture = file.string("general.architecture");
    const std::vector<std::string> known = architectures();
    if (std::find(known.begin(), known.end(), hp.architecture) == known.end())
        throw GgufError("architecture '" + hp.architecture +
                        "' is not one that this engine runs (llama, qwen2, qwen3)");
    const std::string prefix = hp.architecture + ".";
    const auto required = [&](const char* name, uint64_t low, uint64_t high) {
        return bounded(file, prefix + name, file.u64(prefix + name), low, high);
    };
    const auto optional = [&](const char* name, uint64_t fallback, uint64_t low, uint64_t high) {
        return bounded(file, prefix + name, file.u64(prefix + name, fallback), low, high);
    };
    hp.layers = required("block_count", 1, 4096);
    hp.embedding = required("embedding_length", 32, 1 << 20);
    hp.feed_forward = required("feed_forward_length", 32, 1 << 22);
    hp.heads = required("attention.head_count", 1, 4096);
    hp.kv_heads = optional("attention.head_count_kv", static_cast<uint64_t>(hp.heads), 1, 4096);
    const auto split = static_cast<uint64_t>(hp.embedding / hp.heads);
    hp.head_dim = optional("attention.key_length", split, 32, 1024);
    hp.rope_dims = optional("rope.dimension_count", static_cast<uint64_t>(hp.head_dim), 2, 1024);
    hp.context_train = required("context_length", 1, 1 << 30);
    hp.norm_eps = static_cast<float>(file.f64(prefix + "attention.layer_norm_rms_epsilon"));
    if (!(hp.norm_eps >= 0.0F && hp.norm_eps < 1.0F))
        throw GgufError(prefix + "attention.layer_norm_rms_epsilon is not between 0 and 1");
    if (hp.heads % hp.kv_heads != 0)
        throw GgufError(std::to_string(hp.heads) + " heads cannot share " + std::to_string(hp.kv_heads) + " KV heads");
    if (file.u64(prefix + "attention.value_length", static_cast<uint64_t>(hp.head_dim)) !=
        static_cast<uint64_t>(hp.head_dim))
        throw GgufError("key and value heads of different lengths are not supported");
    if (hp.head_dim % 32 != 0 || hp.embedding % 32 != 0 || hp.feed_forward % 32 != 0)
        throw GgufError("head, embedding and feed-forward lengths must be multiples of 32; this model has " +
                        std::to_string(hp.head_dim) + ", " + std::to_string(hp.embedding) + " and " +
                        std::to_string(hp.feed_forward));
    if (hp.rope_dims % 2 != 0 || hp.rope_dims > hp.head_dim)
        throw GgufError(prefix + "rope.dimension_count must be even and at most the head length");
    hp.rope_neox = hp.architecture != "llama";

    hp.rope_base = file.f64(prefix + "rope.freq_base", 10000.0);
    if (!(hp.rope_base > 0.0 && std::isfinite(hp.rope_base)))
        throw GgufError(prefix + "rope.freq_base must be positive");
    hp.scaling = read_scaling(file, prefix + "rope.scaling.type");
    // Files of before 2024 carry a linear factor alone, under this name.
    const double old_factor = file.f64(prefix + "rope.scale_linear", 0.0);
    hp.scaling_factor = file.f64(prefix + "rope.scaling.factor", old_factor > 0.0 ? old_factor : 1.0);
    if (old_factor > 0.0 && file.find(prefix + "rope.scaling.type") == nullptr) hp.scaling = RopeScaling::linear;
    if (!(hp.scaling_factor > 0.0 && std::isfinite(hp.scaling_factor)))
        throw GgufError(prefix + "rope.scaling.factor must be positive");
    if (hp.scaling == RopeScaling::none) hp.scaling_factor = 1.0;
    hp.original_context =
        optional("rope.scaling.original_context_length", static_cast<uint64_t>(hp.context_train), 1, 1 << 30);
    const auto finite = [&](const char* name, double fallback) {
        const double value = file.f64(prefix + name, fallback);
        if (!std::isfinite(value)) throw GgufError(prefix + name + " is not a number");
        return value;
    };
    hp.attention_factor = finite("rope.scaling.attn_factor", 1.0);
    hp.yarn_ext_factor = finite("rope.scaling.yarn_ext_factor", 1.0);
    hp.yarn_beta_fast = finite("rope.scaling.yarn_beta_fast", 32.0);
    hp.yarn_beta_slow = finite("rope.scaling.yarn_beta_slow", 1.0);
    return hp;
}

// YaRN (arXiv 2309.00071, section 3.2): frequencies whose wavelength is short against the original context
// are kept, long ones are interpolated, with a linear ramp between; attention is rescaled by
// 1 + 0.1 ln(factor).
RopeTable::RopeTable(const HyperParams& hp, std::vector<float> factors) : magnitude_(hp.attention_factor) {
    const int half = hp.rope_dims / 2;
    if (!factors.empty() && static_cast<int>(factors.size()) != half)
        throw GgufError("rope_freqs.weight has " + std::to_string(factors.size()) + " values; " + std::to_string(half) +
                        " are needed");
    if (!std::ranges::all_of(factors, [](float f) { return f > 0.0F && std::isfinite(f); }))
        throw GgufError("rope_freqs.weight holds values that are not positive");
    const double interpolate = 1.0 / hp.scaling_factor;
    // The dimension whose frequency turns `turns` times within the original context.
    const auto dimension_of = [&](double turns) {
        return hp.rope_dims * std::log(static_cast<double>(hp.original_context) / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(hp.rope_base));
    };
    const double low = std::max(0.0, std::floor(dimension_of(hp.yarn_beta_fast)));
    const double high = std::min(hp.rope_dims - 1.0, std::ceil(dimension_of(hp.yarn_beta_slow)));
    for (int i = 0; i < half; ++i) {
        double f = std::pow(hp.rope_base, -2.0 * i / hp.rope_dims);
        if (!factors.empty()) f /= static_cast<double>(factors[static_cast<size_t>(i)]);
        double scaled = f * interpolate;
        if (hp.scaling == RopeScaling::yarn) {
            const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
            const double keep = (1.0 - ramp) * hp.yarn_ext_factor;
            scaled = scaled * (1.0 - keep) + f * keep;
        }
        frequency_.push_back(scaled);
    }
    if (hp.scaling == RopeScaling::yarn && hp.yarn_ext_factor != 0.0)
        magnitude_ *= 1.0 + 0.1 * std::log(hp.scaling_factor);
}

void RopeTable::fill(int64_t position, float* out) const {
    const size_t half = frequency_.size();
    for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * frequency_[i];
        out[i] = static_cast<float>(std::cos(angle) * magnitude_);
        out[half + i] = static_cast<float>(std::sin(angle) * magnitude_);
    }
}

} // namespace hearth::model
