#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "binding/arrays.h"
#include "binding/bindings.h"
#include "binding/gil.h"
#include "gguf/gguf_file.h"
#include "gguf/source.h"
#include "quant/dequant.h"

namespace nb = nanobind;

namespace hearth::binding {

namespace {

nb::object decode(const std::string& s) {
    return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

nb::object to_python(const gguf::Value& value) {
    return std::visit(
        [](const auto& v) -> nb::object {
            using T = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<T, std::string>) {
                return decode(v);
            } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
                nb::list out;
                for (const std::string_view s : v) out.append(nb::bytes(s.data(), s.size()));
                return out;
            } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
                nb::list out;
                for (const bool b : v) out.append(b);
                return out;
            } else {
                return nb::cast(v);
            }
        },
        value);
}

nb::tuple shape_of(const gguf::Tensor& t) {
    nb::list out;
    for (int i = 0; i < t.n_dims; ++i) out.append(t.shape[static_cast<size_t>(i)]);
    return nb::tuple(out);
}

NumpyArray<float> dequantised(const gguf::File& file, const std::string& name) {
    const gguf::Tensor* t = file.find_tensor(name);
    if (t == nullptr) throw nb::key_error(name.c_str());
    const auto n = static_cast<size_t>(t->n_dims);
    std::vector<size_t> shape(t->shape.begin(), t->shape.begin() + t->n_dims);
    std::ranges::reverse(shape); // numpy counts dimensions from the outermost
    auto values = std::make_unique<std::vector<float>>(static_cast<size_t>(t->shape[0] * t->n_rows()));
    {
        const GilReleased released;
        file.source()->require_unchanged();
        std::vector<std::byte> stored(t->nbytes); // read, not mapped: an error if the file is shortened, no signal
        file.source()->read(t->offset, stored);
        quant::dequantize_row(t->type, stored.data(), values->data(), static_cast<int64_t>(values->size()));
    }
    return to_numpy(std::move(values), shape.data(), n);
}

} // namespace

void bind_gguf(nb::module_& m) {
    const nb::exception<gguf::GgufError> gguf_error(m, "GgufError", PyExc_ValueError); // lives as long as the module
    // Messages quote paths and metadata, whose bytes are not always UTF-8.
    const auto translate = [](const std::exception_ptr& p, void* gguf_error) {
        try {
            std::rethrow_exception(p);
        } catch (const gguf::GgufError& e) {
            PyErr_SetObject(static_cast<PyObject*>(gguf_error), decode(e.what()).ptr());
        } catch (const std::system_error& e) {
            nb::object error = nb::handle(PyExc_OSError)(e.code().value(), decode(e.what()));
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
        }
    };
    nb::register_exception_translator(translate, gguf_error.ptr());

    nb::class_<gguf::Tensor>(m, "TensorInfo")
        .def_ro("name", &gguf::Tensor::name)
        .def_prop_ro("type", [](const gguf::Tensor& t) { return std::string(gguf::type_name(t.type)); })
        .def_prop_ro("shape", &shape_of)
        .def_ro("offset", &gguf::Tensor::offset)
        .def_ro("nbytes", &gguf::Tensor::nbytes);

    nb::class_<gguf::File>(m, "GgufFile")
        .def(
            "__init__",
            [](gguf::File* self, const std::filesystem::path& path) { new (self) gguf::File(path.string()); },
            nb::arg("path"))
        .def_prop_ro("path", [](const gguf::File& f) { return nb::steal(PyUnicode_DecodeFSDefault(f.path().c_str())); })
        .def_prop_ro("tensors", [](const gguf::File& f) { return f.tensors(); })
        .def("keys", &gguf::File::keys)
        .def(
            "get",
            [](const gguf::File& f, const std::string& key) -> nb::object {
                const gguf::Value* value = f.find(key);
                return value == nullptr ? nb::none() : to_python(*value);
            },
            nb::arg("key"))
        .def("tensor", &dequantised, nb::arg("name"));
}

} // namespace hearth::binding
