#include <stdexcept>
#include <string>

#include "kv/kv_format.h"

namespace hearth::kv {

std::unique_ptr<KvFormat> make_format(std::string_view name, const cpu::Kernels& kernels) {
    if (name == "f16") return make_f16_format(kernels);
    if (name == "f32") return make_f32_format();
    throw std::invalid_argument("KV format '" + std::string(name) + "' is not one of f16, f32");
}

} // namespace hearth::kv
