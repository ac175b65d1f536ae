// The Python face of the engine: engine._native. Signatures and contracts: engine/_native.pyi.
#include <nanobind/nanobind.h>

#include "binding/bindings.h"

NB_MODULE(_native, m) {
    m.doc() = "Hearth's native engine";
    // A thread that still computes when the process ends keeps its engine: nothing that a person should read of.
    nanobind::set_leak_warnings(false);
    hearth::binding::bind_gguf(m);
    hearth::binding::bind_engine(m);
}
