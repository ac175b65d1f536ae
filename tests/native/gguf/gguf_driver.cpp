// Parses what comes on standard input and says how it went, one line each. Test code.
//
// Request: a byte 'B' (a file's bytes follow) or 'P' (a path follows), a 64-bit length, that many bytes.
// Reply: "ok" or "error" or "system", the peak of bytes allocated meanwhile, and the message; tab-separated.
// Anything else, a crash included, is a failure.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "gguf/gguf_file.h"
#include "gguf/header.h"
#include "quant/dequant.h"

namespace {

size_t allocated = 0;
size_t peak = 0;
constexpr size_t kHeader = alignof(std::max_align_t);  // room before each block for its size

}  // namespace

void* operator new(size_t size) {
    auto* block = static_cast<std::byte*>(std::malloc(size + kHeader));
    if (block == nullptr) throw std::bad_alloc();
    *reinterpret_cast<size_t*>(block) = size;
    allocated += size;
    peak = std::max(peak, allocated);
    return block + kHeader;
}

void operator delete(void* pointer) noexcept {
    if (pointer == nullptr) return;
    auto* block = static_cast<std::byte*>(pointer) - kHeader;
    allocated -= *reinterpret_cast<size_t*>(block);
    std::free(block);
}

void operator delete(void* pointer, size_t) noexcept { operator delete(pointer); }

namespace {

// Reads every byte that a user of the parsed file could, so that a sanitizer sees a wrong pointer.
double use(const std::vector<hearth::gguf::Tensor>& tensors,
           const std::vector<std::pair<std::string_view, hearth::gguf::Value>>& metadata) {
    double sum = 0;
    for (const auto& [key, value] : metadata) {
        for (const char c : key) sum += c;
        if (const auto* strings = std::get_if<std::vector<std::string_view>>(&value)) {
            for (const std::string_view text : *strings) {
                for (const char c : text) sum += c;
            }
        }
    }
    std::vector<float> row;
    for (const auto& tensor : tensors) {
        row.resize(static_cast<size_t>(tensor.shape[0]));
        for (int64_t i = 0; i < tensor.n_rows(); ++i) {
            const std::byte* data = tensor.data + static_cast<size_t>(i) * tensor.bytes_per_row();
            hearth::quant::dequantize_row(tensor.type, data, row.data(), tensor.shape[0]);
            sum += static_cast<double>(row.back());
        }
    }
    return sum;
}

void parse(char kind, std::span<const std::byte> request) {
    if (kind == 'B') {
        const hearth::gguf::Header header = hearth::gguf::parse_header(request);
        use(header.tensors, header.metadata);
    } else {
        const std::string path(reinterpret_cast<const char*>(request.data()), request.size());
        hearth::gguf::File opened(path);
        const hearth::gguf::File file = std::move(opened);  // what it points to must survive a move
        use(file.tensors(), {});
        for (const std::string& key : file.keys()) {
            if (file.find(key) == nullptr) std::abort();
        }
        for (const auto& tensor : file.tensors()) {
            if (file.find_tensor(tensor.name) != &tensor) std::abort();
        }
    }
}

bool read_exactly(void* into, size_t size) { return std::fread(into, 1, size, stdin) == size; }

void reply(const char* outcome, size_t before, const char* message) {
    std::printf("%s\t%zu\t%s\n", outcome, peak - before, message);
    std::fflush(stdout);
}

}  // namespace

int main() {
    char kind = 0;
    uint64_t length = 0;
    while (read_exactly(&kind, 1) && read_exactly(&length, sizeof length)) {
        // Exactly as long as the file: a sanitizer sees one byte too far.
        const std::unique_ptr<std::byte, decltype(&std::free)> bytes(
            static_cast<std::byte*>(std::malloc(static_cast<size_t>(length))), &std::free);
        if (!read_exactly(bytes.get(), static_cast<size_t>(length))) return 1;
        const size_t before = peak = allocated;
        try {
            parse(kind, {bytes.get(), static_cast<size_t>(length)});
            reply("ok", before, "");
        } catch (const hearth::gguf::GgufError& error) {
            reply("error", before, error.what());
        } catch (const std::system_error& error) {
            reply("system", before, error.what());
        }
    }
    return 0;
}
