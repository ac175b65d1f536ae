#include "cpu/isa/avx2.h"
#include "cpu/ops/table.h"

namespace hearth::cpu {

const Kernels& avx2_kernels() {
    static constexpr Kernels kTable = make_table<Avx2>();
    return kTable;
}

} // namespace hearth::cpu
