// A whole file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/source.h"

namespace hearth::gguf {

class Mapping {
public:
    // Throws std::system_error when the file cannot be mapped.
    explicit Mapping(const Source& file);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::span<const std::byte> bytes() const noexcept { return bytes_; }

private:
    std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

}  // namespace hearth::gguf
