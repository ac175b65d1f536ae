// The token embedding: rows of a table, looked up by token.
//
// A file that ties the output to the embedding holds one table for both; its rows are taken from the packed output
// matrix. Otherwise a table of a hundred megabytes would lie in memory for the few rows that a text needs: they are
// read from the file instead, and nothing but an error can come of a file that is no longer there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "gguf/gguf_file.h"
#include "gguf/source.h"
#include "quant/packed.h"

namespace hearth::model {

class Embedding {
public:
    // tied: the same table as the output matrix, which must outlive this.
    explicit Embedding(const quant::PackedMatrix& tied) : tied_(&tied) {}
    Embedding(const gguf::Tensor& table, std::shared_ptr<const gguf::Source> file);

    // Bytes that row() needs to work in.
    size_t scratch_bytes() const noexcept { return row_bytes_; }
    // The token's row, dequantised. Throws GgufError when the file was shortened meanwhile.
    void row(int64_t token, std::span<std::byte> scratch, std::span<float> out) const;
    // Throws GgufError when rows would be read from a file that was written to since it was loaded.
    void require_unchanged() const;

private:
    const quant::PackedMatrix* tied_ = nullptr;
    std::shared_ptr<const gguf::Source> file_;
    gguf::Type type_{};
    uint64_t offset_ = 0;
    size_t row_bytes_ = 0;
};

} // namespace hearth::model
