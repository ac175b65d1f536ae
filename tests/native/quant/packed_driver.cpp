// Packs a matrix and compares every row that comes back with the dequantised original, bit for bit. Test code.
//
//   packed_driver FILE TYPE-NUMBER COLUMNS ROWS      FILE holds the rows as a GGUF tensor would
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "gguf/mapping.h"
#include "quant/dequant.h"
#include "quant/packed.h"
#include "runtime/thread_pool.h"

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const hearth::gguf::Source source(argv[1]);
    const hearth::gguf::Mapping mapping(source);
    const auto cols = static_cast<size_t>(std::stoul(argv[3]));
    hearth::gguf::Tensor tensor;
    tensor.name = "matrix";
    tensor.type = *hearth::gguf::type_from_number(static_cast<uint32_t>(std::stoul(argv[2])));
    tensor.n_dims = 2;
    tensor.shape = {std::atol(argv[3]), std::atol(argv[4]), 1, 1};
    tensor.data = mapping.bytes().data();
    hearth::runtime::ThreadPool pool(2);
    const hearth::quant::PackedMatrix packed = hearth::quant::pack(tensor, pool);
    for (int64_t row = 0; row < tensor.shape[1]; ++row) {
        std::vector<float> expected(cols);
        std::vector<float> actual(cols);
        hearth::quant::dequantize_row(tensor.type, tensor.data + static_cast<size_t>(row) * tensor.bytes_per_row(),
                                      expected.data(), tensor.shape[0]);
        hearth::quant::unpack_row(packed, row, actual.data());
        if (std::memcmp(expected.data(), actual.data(), cols * sizeof(float)) == 0) continue;
        std::cerr << "row " << row << " differs\n";
        return 1;
    }
    return 0;
}
