// Dequantises standard input to standard output, as raw floats. Test code.
//
//   quant_driver TYPE-NUMBER ROW-LENGTH       rows of a tensor type
//   quant_driver f16 | bf16 | f16-portable    floats in, 16-bit floats out
//   quant_driver from-f16-portable            halves in, floats out
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "quant/dequant.h"
#include "quant/half.h"

namespace {

std::vector<std::byte> read_all() {
    std::vector<std::byte> bytes;
    std::byte buffer[65536];
    while (const size_t n = std::fread(buffer, 1, sizeof buffer, stdin)) bytes.insert(bytes.end(), buffer, buffer + n);
    return bytes;
}

template <class T>
void write_all(const std::vector<T>& values) {
    std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

template <class From, class To>
void convert(const std::vector<std::byte>& bytes, To (*one)(From)) {
    std::vector<From> in(bytes.size() / sizeof(From));
    std::memcpy(in.data(), bytes.data(), in.size() * sizeof(From));
    std::vector<To> out;
    out.reserve(in.size());
    for (const From x : in) out.push_back(one(x));
    write_all(out);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::byte> bytes = read_all();
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "f16") {
        convert<float, uint16_t>(bytes, [](float x) { return hearth::quant::f32_to_f16(x); });
    } else if (what == "f16-portable") {
        convert<float, uint16_t>(bytes, [](float x) { return hearth::quant::f32_to_f16_portable(x); });
    } else if (what == "bf16") {
        convert<float, uint16_t>(bytes, [](float x) { return hearth::quant::f32_to_bf16(x); });
    } else if (what == "from-f16-portable") {
        convert<uint16_t, float>(bytes, [](uint16_t h) { return hearth::quant::f16_to_f32_portable(h); });
    } else if (argc == 3) {
        const auto type = hearth::gguf::type_from_number(static_cast<uint32_t>(std::atoi(what.c_str())));
        if (!type) return 1;
        const int64_t n = std::atoll(argv[2]);
        const size_t row_bytes = hearth::gguf::row_bytes(*type, n);
        std::vector<float> out(bytes.size() / row_bytes * static_cast<size_t>(n));
        for (size_t row = 0; row < bytes.size() / row_bytes; ++row) {
            hearth::quant::dequantize_row(*type, bytes.data() + row * row_bytes,
                                          out.data() + row * static_cast<size_t>(n), n);
        }
        write_all(out);
    } else {
        return 1;
    }
    return 0;
}
