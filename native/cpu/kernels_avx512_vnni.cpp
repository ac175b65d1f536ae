#include "cpu/isa/avx512_vnni.h"
#include "cpu/ops/table.h"

namespace hearth::cpu {

const Kernels& avx512_vnni_kernels() {
    static constexpr Kernels kTable = make_table<Avx512Vnni>();
    return kTable;
}

} // namespace hearth::cpu
