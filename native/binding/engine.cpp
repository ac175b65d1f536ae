#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "binding/arrays.h"
#include "binding/bindings.h"
#include "binding/gil.h"
#include "model/transformer.h"

namespace nb = nanobind;

namespace hearth::binding {

namespace {

// Weights and the kernels they run on; shared by every engine over them.
class Model {
public:
    Model(const gguf::File& file, const std::string& isa, const std::function<void()>& before_tensor)
        : kernels_(cpu::kernels_by_name(isa)) {
        runtime::ThreadPool pool(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U)));
        weights_ = std::make_unique<model::Weights>(file, pool, before_tensor);
    }
    const model::Weights& weights() const { return *weights_; }
    const cpu::Kernels& kernels() const { return kernels_; }

private:
    const cpu::Kernels& kernels_;
    std::unique_ptr<model::Weights> weights_;
};

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pages = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bools = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class Engine {
public:
    Engine(std::shared_ptr<Model> model, int64_t kv_tokens, int threads, const std::string& kv_format)
        : model_(std::move(model)),
          pool_(threads),
          cache_(hp().layers, hp().kv_heads, hp().head_dim, kv_tokens, kv::make_format(kv_format, model_->kernels())),
          transformer_(model_->weights(), model_->kernels(), pool_, cache_) {}

    // Runs fn on the cache, unless another thread is inside the engine.
    template <typename Fn>
    auto with_cache(Fn&& fn) {
        const Use use(in_use_);
        return fn(cache_);
    }
    std::string kv_format() const { return std::string(cache_.format().name()); }
    void cancel() { cancel_.store(true); }

    NumpyArray<float> forward(const Ints& seqs, const Ints& tokens, const Bools& want_logits) {
        return run(seqs, tokens, want_logits, nullptr).first;
    }

    std::pair<NumpyArray<float>, NumpyArray<float>> forward_hidden(const Ints& seqs, const Ints& tokens,
                                                                   const Bools& want_logits, const Bools& want_hidden) {
        return run(seqs, tokens, want_logits, &want_hidden);
    }

    size_t page_bytes() const { return cache_.page_bytes(); }

    // Both copy at memory speed and in small pieces, so they keep Python's lock.
    NumpyArray<uint8_t> read_pages(int seq, int64_t first_page, int64_t count) {
        const Use use(in_use_);
        // Before a buffer of that size is made.
        if (count < 0 || count > cache_.length(seq) / cpu::kPageTokens)
            throw std::invalid_argument("sequence " + std::to_string(seq) + " does not have " + std::to_string(count) +
                                        " whole pages");
        auto out = std::make_unique<std::vector<uint8_t>>(static_cast<size_t>(count) * page_bytes());
        cache_.read_pages(seq, first_page, count, reinterpret_cast<std::byte*>(out->data()));
        const size_t shape[] = {static_cast<size_t>(count), page_bytes()};
        return to_numpy(std::move(out), shape, 2);
    }

    void append_pages(int seq, const Pages& pages) {
        const Use use(in_use_);
        if (pages.shape(1) != page_bytes())
            throw std::invalid_argument("a page has " + std::to_string(page_bytes()) + " bytes, not " +
                                        std::to_string(pages.shape(1)));
        cache_.append_pages(seq, static_cast<int64_t>(pages.shape(0)),
                            reinterpret_cast<const std::byte*>(pages.data()));
    }

private:
    // forward runs without Python's lock, so another thread could come in: refuse it rather than race.
    class Use {
    public:
        explicit Use(std::atomic<bool>& flag) : flag_(flag) {
            if (flag_.exchange(true)) throw std::runtime_error("the engine is in use by another thread");
        }
        ~Use() { flag_.store(false); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

    private:
        std::atomic<bool>& flag_;
    };

    // Logits and hidden states of the rows that want them; without want_hidden none wants any.
    std::pair<NumpyArray<float>, NumpyArray<float>> run(const Ints& seqs, const Ints& tokens, const Bools& want_logits,
                                                        const Bools* want_hidden) {
        const Use use(in_use_);
        const size_t n = tokens.shape(0);
        if (seqs.shape(0) != n || want_logits.shape(0) != n || (want_hidden != nullptr && want_hidden->shape(0) != n))
            throw std::invalid_argument("seqs, tokens and what is wanted of them differ in length");
        std::vector<model::BatchRow> rows(n);
        for (size_t i = 0; i < n; ++i)
            rows[i] = {seqs(i), tokens(i), want_logits(i), want_hidden != nullptr && (*want_hidden)(i)};
        cancel_.store(false);
        // Here, as no failure may follow a forward that succeeded.
        auto logits = std::make_unique<std::vector<float>>();
        auto hidden = std::make_unique<std::vector<float>>();
        {
            const GilReleased released;
            model::Outputs out = transformer_.forward(rows, cancel_);
            *logits = std::move(out.logits);
            *hidden = std::move(out.hidden);
        }
        const size_t vocab = static_cast<size_t>(model_->weights().vocab);
        const size_t embedding = static_cast<size_t>(hp().embedding);
        const size_t logits_shape[] = {logits->size() / vocab, vocab};
        const size_t hidden_shape[] = {hidden->size() / embedding, embedding};
        return {to_numpy(std::move(logits), logits_shape, 2), to_numpy(std::move(hidden), hidden_shape, 2)};
    }

    const model::HyperParams& hp() const { return model_->weights().hp; }

    std::shared_ptr<Model> model_;
    runtime::ThreadPool pool_;
    kv::KvCache cache_;
    model::Transformer transformer_;
    std::atomic<bool> cancel_{false};
    std::atomic<bool> in_use_{false};
};

} // namespace

void bind_engine(nb::module_& m) {
    nb::exception<model::Cancelled>(m, "Cancelled", PyExc_InterruptedError);
    nb::exception<kv::OutOfPages>(m, "OutOfPages", PyExc_MemoryError);

    m.def("isas", [] {
        std::vector<std::string> names;
        for (const cpu::Kernels* k : cpu::available_kernels()) names.emplace_back(k->name);
        return names;
    });
    m.def("architectures", &model::architectures);
    m.def("quant_types", [] {
        std::vector<std::string> names;
        for (const gguf::Type t : gguf::all_types()) names.emplace_back(gguf::type_name(t));
        return names;
    });

    nb::class_<Model>(m, "Model")
        .def(
            "__init__",
            [](Model* self, const gguf::File& file, const std::string& isa, const nb::object& cancelled) {
                GilReleased released;
                const auto asked_to_stop = [&cancelled] { return nb::cast<bool>(cancelled()); };
                new (self) Model(file, isa, [&] {
                    if (!cancelled.is_none() && released.with_lock(asked_to_stop)) throw model::Cancelled();
                });
            },
            nb::arg("gguf"), nb::kw_only(), nb::arg("isa") = "auto", nb::arg("cancelled") = nb::none())
        .def_prop_ro("architecture", [](const Model& model) { return model.weights().hp.architecture; })
        .def_prop_ro("n_vocab", [](const Model& model) { return model.weights().vocab; })
        .def_prop_ro("n_layers", [](const Model& model) { return model.weights().hp.layers; })
        .def_prop_ro("n_context_train", [](const Model& model) { return model.weights().hp.context_train; })
        .def_prop_ro("isa", [](const Model& model) { return std::string(model.kernels().name); });

    nb::class_<Engine>(m, "Engine")
        .def(nb::init<std::shared_ptr<Model>, int64_t, int, const std::string&>(), nb::arg("model"), nb::kw_only(),
             nb::arg("kv_tokens"), nb::arg("threads"), nb::arg("kv_format") = "f16")
        .def_prop_ro("kv_format", &Engine::kv_format)
        .def("new_sequence",
             [](Engine& e) { return e.with_cache([](kv::KvCache& cache) { return cache.new_sequence(); }); })
        .def(
            "free_sequence",
            [](Engine& e, int seq) { e.with_cache([&](kv::KvCache& cache) { cache.free_sequence(seq); }); },
            nb::arg("seq"))
        .def(
            "fork_sequence",
            [](Engine& e, int seq, int64_t length) {
                return e.with_cache([&](kv::KvCache& cache) { return cache.fork_sequence(seq, length); });
            },
            nb::arg("seq"), nb::arg("length"))
        .def(
            "truncate",
            [](Engine& e, int seq, int64_t length) {
                e.with_cache([&](kv::KvCache& cache) { cache.truncate(seq, length); });
            },
            nb::arg("seq"), nb::arg("length"))
        .def(
            "length",
            [](Engine& e, int seq) { return e.with_cache([&](kv::KvCache& cache) { return cache.length(seq); }); },
            nb::arg("seq"))
        .def_prop_ro("free_tokens",
                     [](Engine& e) { return e.with_cache([](kv::KvCache& cache) { return cache.free_tokens(); }); })
        .def_prop_ro("free_pages",
                     [](Engine& e) { return e.with_cache([](kv::KvCache& cache) { return cache.free_pages(); }); })
        .def_prop_ro("page_tokens", [](const Engine&) { return cpu::kPageTokens; })
        .def_prop_ro("page_bytes", &Engine::page_bytes)
        .def("read_pages", &Engine::read_pages, nb::arg("seq"), nb::arg("first_page"), nb::arg("count"))
        .def("append_pages", &Engine::append_pages, nb::arg("seq"), nb::arg("pages").noconvert())
        .def("forward", &Engine::forward, nb::arg("seqs").noconvert(), nb::arg("tokens").noconvert(),
             nb::arg("want_logits").noconvert())
        .def("forward_hidden", &Engine::forward_hidden, nb::arg("seqs").noconvert(), nb::arg("tokens").noconvert(),
             nb::arg("want_logits").noconvert(), nb::arg("want_hidden").noconvert())
        .def("cancel", &Engine::cancel);
}

} // namespace hearth::binding
