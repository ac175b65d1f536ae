#include "gguf/gguf_file.h"

#include <limits>
#include <optional>

#include "gguf/header.h"
#include "gguf/mapping.h"
#include "gguf/source.h"

namespace hearth::gguf {
namespace {

[[noreturn]] void wrong_kind(std::string_view key, std::string_view expected) {
    throw GgufError("metadata '" + std::string(key) + "' is not " + std::string(expected));
}

uint64_t as_u64(const Value& value, std::string_view key) {
    if (const auto* u = std::get_if<uint64_t>(&value)) return *u;
    const auto* i = std::get_if<int64_t>(&value);
    if (i == nullptr || *i < 0) wrong_kind(key, "an integer of 0 or more");
    return static_cast<uint64_t>(*i);
}

int64_t as_i64(const Value& value, std::string_view key) {
    if (const auto* i = std::get_if<int64_t>(&value)) return *i;
    const auto* u = std::get_if<uint64_t>(&value);
    if (u == nullptr || !std::in_range<int64_t>(*u)) wrong_kind(key, "an integer below 2^63");
    return static_cast<int64_t>(*u);
}

double as_f64(const Value& value, std::string_view key) {
    if (const auto* d = std::get_if<double>(&value)) return *d;
    if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
    if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
    wrong_kind(key, "a number");
}

template <class T>
const T& as(const Value& value, std::string_view key, std::string_view expected) {
    const T* typed = std::get_if<T>(&value);
    if (typed == nullptr) wrong_kind(key, expected);
    return *typed;
}

Header parse(const std::string& path, const Mapping& mapping) {
    try {
        return parse_header(mapping.bytes());
    } catch (const GgufError& error) {
        throw GgufError(path + ": " + error.what());
    }
}

// Views of the bytes at `from` become views of their copy at `to`.
void move_views(Header& header, const std::byte* from, const std::byte* to) {
    const auto moved = [&](std::string_view view) {
        if (view.empty()) return std::string_view();
        const auto offset = reinterpret_cast<const std::byte*>(view.data()) - from;
        return std::string_view(reinterpret_cast<const char*>(to + offset), view.size());
    };
    for (auto& [key, value] : header.metadata) {
        key = moved(key);
        if (auto* strings = std::get_if<std::vector<std::string_view>>(&value)) {
            for (std::string_view& text : *strings) text = moved(text);
        }
    }
    const auto move_keys = [&](std::unordered_map<std::string_view, size_t>& index) {
        std::unordered_map<std::string_view, size_t> result;
        result.reserve(index.size());
        for (const auto& [key, i] : index) result.emplace(moved(key), i);
        index = std::move(result);
    };
    move_keys(header.key_index);
    move_keys(header.tensor_index);
}

}  // namespace

File::File(const std::string& path)
    : path_(path), source_(std::make_shared<Source>(path)), mapping_(std::make_unique<Mapping>(*source_)) {
    Header header = parse(path, *mapping_);
    const std::byte* mapped = mapping_->bytes().data();
    header_.assign(mapped, mapped + header.bytes);
    move_views(header, mapped, header_.data());
    version_ = header.version;
    metadata_ = std::move(header.metadata);
    key_index_ = std::move(header.key_index);
    tensors_ = std::move(header.tensors);
    tensor_index_ = std::move(header.tensor_index);
}

File::~File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;

const Tensor* File::find_tensor(std::string_view name) const noexcept {
    const auto found = tensor_index_.find(name);
    return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const Tensor& File::tensor(std::string_view name) const {
    const Tensor* found = find_tensor(name);
    if (found == nullptr) throw GgufError(path_ + ": tensor '" + std::string(name) + "' is missing");
    return *found;
}

std::vector<std::string> File::keys() const {
    std::vector<std::string> keys;
    keys.reserve(metadata_.size());
    for (const auto& [key, value] : metadata_) keys.emplace_back(key);
    return keys;
}

const Value* File::find(std::string_view key) const noexcept {
    const auto found = key_index_.find(key);
    return found == key_index_.end() ? nullptr : &metadata_[found->second].second;
}

const Value& File::require(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) throw GgufError(path_ + ": metadata '" + std::string(key) + "' is missing");
    return *value;
}

uint64_t File::u64(std::string_view key) const { return as_u64(require(key), key); }

uint64_t File::u64(std::string_view key, uint64_t fallback) const {
    const Value* value = find(key);
    return value == nullptr ? fallback : as_u64(*value, key);
}

int64_t File::i64(std::string_view key) const { return as_i64(require(key), key); }

int64_t File::i64(std::string_view key, int64_t fallback) const {
    const Value* value = find(key);
    return value == nullptr ? fallback : as_i64(*value, key);
}

double File::f64(std::string_view key) const { return as_f64(require(key), key); }

double File::f64(std::string_view key, double fallback) const {
    const Value* value = find(key);
    return value == nullptr ? fallback : as_f64(*value, key);
}

bool File::boolean(std::string_view key) const { return as<bool>(require(key), key, "a bool"); }

bool File::boolean(std::string_view key, bool fallback) const {
    const Value* value = find(key);
    return value == nullptr ? fallback : as<bool>(*value, key, "a bool");
}

const std::string& File::string(std::string_view key) const { return as<std::string>(require(key), key, "a string"); }

std::string File::string(std::string_view key, std::string_view fallback) const {
    const Value* value = find(key);
    return value == nullptr ? std::string(fallback) : as<std::string>(*value, key, "a string");
}

const std::vector<int64_t>& File::ints(std::string_view key) const {
    return as<std::vector<int64_t>>(require(key), key, "an array of integers");
}

const std::vector<double>& File::doubles(std::string_view key) const {
    return as<std::vector<double>>(require(key), key, "an array of floats");
}

const std::vector<std::string_view>& File::strings(std::string_view key) const {
    return as<std::vector<std::string_view>>(require(key), key, "an array of strings");
}

}  // namespace hearth::gguf
