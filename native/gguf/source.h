// A model file, open for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

namespace hearth::gguf {

class Source {
public:
    // Throws std::system_error when the file cannot be opened or is not a regular file.
    explicit Source(const std::string& path);
    ~Source();
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    int descriptor() const noexcept { return fd_; }
    size_t size() const noexcept { return size_; }

    // Throws GgufError when another program has written to the file since it was opened.
    void require_unchanged() const;
    // Fills `to` from the file. Throws GgufError when the file does not hold those bytes any more.
    void read(uint64_t offset, std::span<std::byte> to) const;

private:
    std::string path_;
    int fd_;
    size_t size_ = 0;
    timespec modified_{};
};

}  // namespace hearth::gguf
