// One function for each group of bound classes.
#pragma once

#include <nanobind/nanobind.h>

namespace hearth::binding {

void bind_gguf(nanobind::module_& m);
void bind_engine(nanobind::module_& m);

} // namespace hearth::binding
