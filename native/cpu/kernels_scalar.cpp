#include "cpu/isa/scalar.h"
#include "cpu/ops/table.h"

namespace hearth::cpu {

const Kernels& scalar_kernels() {
    static constexpr Kernels kTable = make_table<Scalar>();
    return kTable;
}

} // namespace hearth::cpu
