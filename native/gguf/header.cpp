#include "gguf/header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

namespace hearth::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place: a little-endian machine is needed");

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;    // the format asks for a multiple of 8; kernels rely on it
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's limits
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint32_t kMaxDims = 4;

// Far above any real model; they bound the memory that a hostile header inside a large file can take.
constexpr uint64_t kMaxTensors = uint64_t{1} << 18;
constexpr uint64_t kMaxEntries = uint64_t{1} << 16;
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 23;  // in all arrays together

// Metadata value types of the file format.
enum class Kind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

std::string quoted(std::string_view text) {
    // Names come from an untrusted file and go to a person's screen: printable ASCII only, and short.
    constexpr size_t kShown = 80;
    std::string out = "'";
    for (const char c : text.substr(0, kShown)) out += (c >= ' ' && c <= '~') ? c : '?';
    return out + (text.size() > kShown ? "...'" : "'");
}

// A cursor that never leaves the file.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    uint64_t offset() const noexcept { return offset_; }
    uint64_t remaining() const noexcept { return bytes_.size() - offset_; }

    [[noreturn]] void fail(const std::string& what) const {
        throw GgufError(what + " (at byte " + std::to_string(field_offset_) + " of " + std::to_string(bytes_.size()) +
                        ")");
    }

    template <class T>
    T number(std::string_view field) {
        static_assert(std::is_arithmetic_v<T>);
        field_offset_ = offset_;
        if (remaining() < sizeof(T)) {
            fail(std::string(field) + " needs " + std::to_string(sizeof(T)) + " bytes, but only " +
                 std::to_string(remaining()) + " remain: the file is truncated");
        }
        T value;
        std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
        offset_ += sizeof(T);
        return value;
    }

    // A count of things, at most max of them, that each take at least min_bytes more bytes of this file.
    uint64_t count(std::string_view field, uint64_t min_bytes, uint64_t max) {
        const auto n = number<uint64_t>(field);
        if (n > max) {
            fail(std::string(field) + " is " + std::to_string(n) + ", more than the limit of " + std::to_string(max));
        }
        const uint64_t limit = remaining() / min_bytes;
        if (n > limit) {
            fail(std::string(field) + " is " + std::to_string(n) + ", but the rest of the file holds at most " +
                 std::to_string(limit));
        }
        return n;
    }

    uint64_t array_length(std::string_view field, uint64_t min_bytes) {
        const uint64_t n = count(field, min_bytes, kMaxArrayElements - array_elements_);
        array_elements_ += n;
        return n;
    }

    std::string_view string(std::string_view field, uint64_t max_bytes) {
        const auto length = number<uint64_t>(field);
        if (length > max_bytes) {
            fail("the length of " + std::string(field) + " is " + std::to_string(length) + ", more than the limit of " +
                 std::to_string(max_bytes));
        }
        if (length > remaining()) {
            fail("the length of " + std::string(field) + " is " + std::to_string(length) + ", but only " +
                 std::to_string(remaining()) + " bytes remain");
        }
        const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + offset_,
                                    static_cast<size_t>(length));
        offset_ += length;
        return text;
    }

private:
    std::span<const std::byte> bytes_;
    uint64_t offset_ = 0;
    uint64_t field_offset_ = 0;    // where the latest number began, for messages
    uint64_t array_elements_ = 0;  // in all arrays so far
};

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();  // beyond the file's own size

bool read_bool(Reader& in, const std::string& field) {
    const auto byte = in.number<uint8_t>(field);
    if (byte > 1) in.fail(field + " is " + std::to_string(byte) + ", but a bool is 0 or 1");
    return byte == 1;
}

template <class T>
std::vector<int64_t> read_ints(Reader& in, uint64_t count, const std::string& field) {
    std::vector<int64_t> values;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
        const T value = in.number<T>(field);
        if (!std::in_range<int64_t>(value)) {
            in.fail(field + " holds " + std::to_string(value) + ", more than 2^63 - 1");
        }
        values.push_back(static_cast<int64_t>(value));
    }
    return values;
}

template <class T>
std::vector<double> read_doubles(Reader& in, uint64_t count, const std::string& field) {
    std::vector<double> values;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(in.number<T>(field)));
    return values;
}

std::vector<bool> read_bools(Reader& in, uint64_t count, const std::string& field) {
    std::vector<bool> values;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) values.push_back(read_bool(in, field));
    return values;
}

std::vector<std::string_view> read_strings(Reader& in, uint64_t count, const std::string& field) {
    std::vector<std::string_view> values;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) values.push_back(in.string(field, kNoLimit));
    return values;
}

Value read_array(Reader& in, const std::string& field) {
    const auto kind = in.number<uint32_t>("the element type of " + field);
    const auto count = [&](uint64_t element_bytes) { return in.array_length("the length of " + field, element_bytes); };
    switch (static_cast<Kind>(kind)) {
        case Kind::U8: return read_ints<uint8_t>(in, count(1), field);
        case Kind::I8: return read_ints<int8_t>(in, count(1), field);
        case Kind::U16: return read_ints<uint16_t>(in, count(2), field);
        case Kind::I16: return read_ints<int16_t>(in, count(2), field);
        case Kind::U32: return read_ints<uint32_t>(in, count(4), field);
        case Kind::I32: return read_ints<int32_t>(in, count(4), field);
        case Kind::U64: return read_ints<uint64_t>(in, count(8), field);
        case Kind::I64: return read_ints<int64_t>(in, count(8), field);
        case Kind::F32: return read_doubles<float>(in, count(4), field);
        case Kind::F64: return read_doubles<double>(in, count(8), field);
        case Kind::Bool: return read_bools(in, count(1), field);
        case Kind::String: return read_strings(in, count(8), field);
        case Kind::Array: in.fail(field + " is an array of arrays, which is not supported");
    }
    in.fail(field + " has the unknown element type " + std::to_string(kind));
}

Value read_value(Reader& in, const std::string& field) {
    const auto kind = in.number<uint32_t>("the type of " + field);
    switch (static_cast<Kind>(kind)) {
        case Kind::U8: return uint64_t{in.number<uint8_t>(field)};
        case Kind::U16: return uint64_t{in.number<uint16_t>(field)};
        case Kind::U32: return uint64_t{in.number<uint32_t>(field)};
        case Kind::U64: return in.number<uint64_t>(field);
        case Kind::I8: return int64_t{in.number<int8_t>(field)};
        case Kind::I16: return int64_t{in.number<int16_t>(field)};
        case Kind::I32: return int64_t{in.number<int32_t>(field)};
        case Kind::I64: return in.number<int64_t>(field);
        case Kind::F32: return double{in.number<float>(field)};
        case Kind::F64: return in.number<double>(field);
        case Kind::Bool: return read_bool(in, field);
        case Kind::String: return std::string(in.string(field, kNoLimit));
        case Kind::Array: return read_array(in, field);
    }
    in.fail(field + " has the unknown type " + std::to_string(kind));
}

void read_magic_and_version(Reader& in, Header& header) {
    constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
    if (in.number<uint32_t>("the magic number") != kMagic)
        in.fail("this is not a GGUF file: it does not begin with 'GGUF'");
    header.version = in.number<uint32_t>("the format version");
    if ((header.version & 0xffffu) == 0 && header.version != 0) {
        in.fail("this GGUF file is big-endian, which is not supported; convert it to little-endian");
    }
    if (header.version != 2 && header.version != 3) {
        in.fail("the GGUF format version is " + std::to_string(header.version) + "; versions 2 and 3 are supported");
    }
}

void read_metadata(Reader& in, uint64_t count, Header& header) {
    for (uint64_t i = 0; i < count; ++i) {
        const std::string_view key = in.string("metadata key " + std::to_string(i), kMaxKeyBytes);
        const std::string field = "metadata " + quoted(key);
        if (!header.key_index.emplace(key, header.metadata.size()).second) in.fail(field + " occurs twice");
        header.metadata.emplace_back(key, read_value(in, field));
    }
}

// The value of an unsigned metadata key, or nothing when it is absent.
std::optional<uint64_t> find_unsigned(const Reader& in, const Header& header, std::string_view key) {
    const auto found = header.key_index.find(key);
    if (found == header.key_index.end()) return std::nullopt;
    const auto* value = std::get_if<uint64_t>(&header.metadata[found->second].second);
    if (value == nullptr) in.fail("metadata " + quoted(key) + " is not an unsigned integer");
    return *value;
}

void refuse_split(const Reader& in, const Header& header) {
    const uint64_t parts = find_unsigned(in, header, "split.count").value_or(1);
    if (parts > 1) {
        in.fail("this file is one of " + std::to_string(parts) +
                " parts of a split GGUF, which is not supported; merge the parts into one file first");
    }
}

uint64_t read_alignment(const Reader& in, const Header& header) {
    const uint64_t alignment = find_unsigned(in, header, "general.alignment").value_or(kDefaultAlignment);
    if (alignment < kMinAlignment || alignment > std::numeric_limits<uint32_t>::max() ||
        !std::has_single_bit(alignment)) {
        in.fail("metadata 'general.alignment' is " + std::to_string(alignment) +
                "; it must be a power of two from 8 to 2^31");
    }
    return alignment;
}

// Shape and byte size; the product of the dimensions fits in int64_t.
void read_shape(Reader& in, Tensor& tensor, const std::string& label) {
    const auto n_dims = in.number<uint32_t>("the number of dimensions of " + label);
    if (n_dims < 1 || n_dims > kMaxDims) {
        in.fail(label + " has " + std::to_string(n_dims) + " dimensions; 1 to 4 are supported");
    }
    tensor.n_dims = static_cast<int>(n_dims);
    uint64_t elements = 1;
    constexpr auto kMaxElements = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    for (size_t i = 0; i < n_dims; ++i) {
        const std::string dimension = "dimension " + std::to_string(i) + " of " + label;
        const auto dim = in.number<uint64_t>(dimension);
        if (dim < 1) in.fail(dimension + " is 0");
        if (dim > kMaxElements / elements) {
            in.fail(dimension + " is " + std::to_string(dim) + ": the tensor would hold more than 2^63 - 1 values");
        }
        elements *= dim;
        tensor.shape[i] = static_cast<int64_t>(dim);
    }
}

void read_type_and_size(Reader& in, Tensor& tensor, const std::string& label, uint64_t file_bytes) {
    const auto number = in.number<uint32_t>("the type of " + label);
    const std::optional<Type> type = type_from_number(number);
    if (!type) in.fail(label + " has type number " + std::to_string(number) + ", which is not supported");
    tensor.type = *type;
    const int64_t per_block = block_elems(*type);
    if (tensor.shape[0] % per_block != 0) {
        in.fail(label + " has rows of " + std::to_string(tensor.shape[0]) + " values, but type " +
                std::string(type_name(*type)) + " needs a multiple of " + std::to_string(per_block));
    }
    const int64_t elements = tensor.shape[0] * tensor.n_rows();  // checked by read_shape
    const auto blocks = static_cast<uint64_t>(elements / per_block);
    if (blocks > file_bytes / block_bytes(*type)) {
        in.fail(label + " holds " + std::to_string(elements) + " values of type " + std::string(type_name(*type)) +
                ", more than the whole file can hold");
    }
    tensor.nbytes = static_cast<size_t>(blocks) * block_bytes(*type);
}

// Leaves tensor.offset relative to the data section, as the file has it.
void read_tensors(Reader& in, uint64_t count, Header& header, uint64_t alignment, uint64_t file_bytes) {
    for (uint64_t i = 0; i < count; ++i) {
        const std::string_view name = in.string("the name of tensor " + std::to_string(i), kMaxNameBytes);
        const std::string label = "tensor " + quoted(name);
        if (!header.tensor_index.emplace(name, header.tensors.size()).second) in.fail(label + " occurs twice");
        Tensor tensor;
        tensor.name = std::string(name);
        read_shape(in, tensor, label);
        read_type_and_size(in, tensor, label, file_bytes);
        tensor.offset = in.number<uint64_t>("the data offset of " + label);
        if (tensor.offset % alignment != 0) {
            in.fail("the data offset of " + label + " is " + std::to_string(tensor.offset) +
                    ", which is not a multiple of the alignment " + std::to_string(alignment));
        }
        header.tensors.push_back(std::move(tensor));
    }
}

// Turns offsets into absolute ones, inside the file and behind the header.
void place_tensors(const Reader& in, Header& header, uint64_t alignment, std::span<const std::byte> bytes) {
    const uint64_t data_start = (in.offset() + alignment - 1) / alignment * alignment;  // both far below 2^63
    for (Tensor& tensor : header.tensors) {
        const uint64_t space = data_start < bytes.size() ? bytes.size() - data_start : 0;
        if (tensor.nbytes > space || tensor.offset > space - tensor.nbytes) {
            in.fail("the data of tensor " + quoted(tensor.name) + ", " + std::to_string(tensor.nbytes) +
                    " bytes at offset " + std::to_string(tensor.offset) + ", does not fit in the " +
                    std::to_string(space) + " bytes after the header: the file is truncated or corrupt");
        }
        tensor.offset += data_start;
        tensor.data = bytes.data() + tensor.offset;
    }
}

void refuse_overlap(const Reader& in, const Header& header) {
    std::vector<size_t> order(header.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto& tensors = header.tensors;
    std::ranges::sort(order, {}, [&](size_t i) { return tensors[i].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
        const Tensor& before = tensors[order[i - 1]];
        const Tensor& after = tensors[order[i]];
        if (before.offset + before.nbytes > after.offset) {
            in.fail("the data of tensors " + quoted(before.name) + " and " + quoted(after.name) + " overlap");
        }
    }
}

}  // namespace

Header parse_header(std::span<const std::byte> bytes) {
    // The least a tensor takes: name length, n_dims, one dimension, type, offset.
    constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
    // The least a metadata entry takes: key length, type, one byte of value.
    constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;

    Reader in(bytes);
    Header header;
    read_magic_and_version(in, header);
    const uint64_t n_tensors = in.count("the number of tensors", kMinTensorBytes, kMaxTensors);
    const uint64_t n_entries = in.count("the number of metadata entries", kMinEntryBytes, kMaxEntries);
    read_metadata(in, n_entries, header);
    refuse_split(in, header);
    const uint64_t alignment = read_alignment(in, header);
    read_tensors(in, n_tensors, header, alignment, bytes.size());
    header.bytes = in.offset();
    place_tensors(in, header, alignment, bytes);
    refuse_overlap(in, header);
    return header;
}

}  // namespace hearth::gguf
