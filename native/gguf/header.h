// Parsing of a GGUF header: bytes in, checked values out.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"

namespace hearth::gguf {

// All string_views and data pointers lie in the bytes that were parsed.
struct Header {
    uint32_t version = 0;
    size_t bytes = 0;  // from the start of the file to the end of the last tensor's entry
    std::vector<std::pair<std::string_view, Value>> metadata;
    std::unordered_map<std::string_view, size_t> key_index;
    std::vector<Tensor> tensors;
    std::unordered_map<std::string_view, size_t> tensor_index;
};

// Throws GgufError. Whatever the bytes say, the memory taken is at most a small multiple of their number, and
// less than about 300 MB beside the strings' own bytes.
Header parse_header(std::span<const std::byte> bytes);

}  // namespace hearth::gguf
