// A GGUF model file, mapped read-only. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// The file is not trusted: every length, count and offset is checked before it is used, and the memory
// taken by the header is bounded by the file's size. The header is copied on opening; only what uses Tensor::data
// reads the mapping. What remains outside our hands: another process that shortens the file just then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "gguf/type.h"

namespace hearth::gguf {

// The file is not a GGUF that can be used; the message names the field, its offset and the limit.
class GgufError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

struct Tensor {
    std::string name;
    Type type{};
    int n_dims = 0;                             // 1 to 4
    std::array<int64_t, 4> shape{1, 1, 1, 1};  // ggml order: shape[0] is the contiguous dimension; all >= 1
    uint64_t offset = 0;                        // bytes from the start of the file
    size_t nbytes = 0;
    const std::byte* data = nullptr;  // into the mapping, aligned to 8 bytes; lives as long as its File

    int64_t n_rows() const noexcept { return shape[1] * shape[2] * shape[3]; }
    size_t bytes_per_row() const { return row_bytes(type, shape[0]); }
};

// A metadata value. Unsigned scalars are uint64_t, signed ones int64_t, both float widths double.
// Integer arrays are int64_t whatever their width; strings of arrays point into the bytes that were parsed.
using Value = std::variant<uint64_t, int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<bool>, std::vector<std::string_view>>;

class Mapping;
class Source;

class File {
public:
    // Throws GgufError (malformed or unsupported) or std::system_error (cannot be opened or mapped).
    explicit File(const std::string& path);
    ~File();
    File(File&&) noexcept;
    File& operator=(File&&) noexcept;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    const std::string& path() const noexcept { return path_; }
    std::shared_ptr<const Source> source() const noexcept { return source_; }
    uint32_t version() const noexcept { return version_; }

    const std::vector<Tensor>& tensors() const noexcept { return tensors_; }  // in file order
    const Tensor* find_tensor(std::string_view name) const noexcept;
    const Tensor& tensor(std::string_view name) const;  // throws GgufError when absent

    std::vector<std::string> keys() const;  // in file order
    const Value* find(std::string_view key) const noexcept;

    // Typed access: GgufError when the key is absent (one-argument form) or of another kind (both).
    // u64 and i64 convert between signs when the value fits; f64 takes integers too.
    uint64_t u64(std::string_view key) const;
    uint64_t u64(std::string_view key, uint64_t fallback) const;
    int64_t i64(std::string_view key) const;
    int64_t i64(std::string_view key, int64_t fallback) const;
    double f64(std::string_view key) const;
    double f64(std::string_view key, double fallback) const;
    bool boolean(std::string_view key) const;
    bool boolean(std::string_view key, bool fallback) const;
    const std::string& string(std::string_view key) const;
    std::string string(std::string_view key, std::string_view fallback) const;
    const std::vector<int64_t>& ints(std::string_view key) const;
    const std::vector<double>& doubles(std::string_view key) const;
    const std::vector<std::string_view>& strings(std::string_view key) const;

private:
    const Value& require(std::string_view key) const;

    std::string path_;
    uint32_t version_ = 0;
    std::shared_ptr<const Source> source_;
    std::unique_ptr<Mapping> mapping_;
    std::vector<std::byte> header_;  // the file's, up to the tensors' data
    std::vector<std::pair<std::string_view, Value>> metadata_;  // keys and strings of arrays point into header_
    std::unordered_map<std::string_view, size_t> key_index_;
    std::vector<Tensor> tensors_;
    std::unordered_map<std::string_view, size_t> tensor_index_;  // keys point into header_
};

}  // namespace hearth::gguf
