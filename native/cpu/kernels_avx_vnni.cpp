#include "cpu/isa/avx_vnni.h"
#include "cpu/ops/table.h"

namespace hearth::cpu {

const Kernels& avx_vnni_kernels() {
    static constexpr Kernels kTable = make_table<AvxVnni>();
    return kTable;
}

} // namespace hearth::cpu
