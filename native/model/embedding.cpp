#include "model/embedding.h"

#include <utility>

#include "quant/dequant.h"

namespace hearth::model {

Embedding::Embedding(const gguf::Tensor& table, std::shared_ptr<const gguf::Source> file)
    : file_(std::move(file)), type_(table.type), offset_(table.offset), row_bytes_(table.bytes_per_row()) {}

void Embedding::row(int64_t token, std::span<std::byte> scratch, std::span<float> out) const {
    if (tied_ != nullptr) {
        quant::unpack_row(*tied_, token, out.data());
        return;
    }
    file_->read(offset_ + static_cast<uint64_t>(token) * row_bytes_, scratch);
    quant::dequantize_row(type_, scratch.data(), out.data(), static_cast<int64_t>(out.size()));
}

void Embedding::require_unchanged() const {
    if (file_ != nullptr) file_->require_unchanged();
}

} // namespace hearth::model
