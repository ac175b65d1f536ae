#include "gguf/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace hearth::gguf {
namespace {

[[noreturn]] void fail(int error, const std::string& path) {
    throw std::system_error(error, std::generic_category(), path);
}

class Descriptor {
public:
    // O_NONBLOCK: a named pipe must not block the open before it is seen to be no regular file.
    explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
        if (fd_ < 0) fail(errno, path);
    }
    ~Descriptor() { ::close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int get() const noexcept { return fd_; }

private:
    int fd_;
};

}  // namespace

Mapping::Mapping(const std::string& path) {
    // open() would stop at an embedded zero byte and open another file.
    if (path.find('\0') != std::string::npos) fail(EINVAL, path);
    const Descriptor file(path);
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) fail(errno, path);
    if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
    if (!S_ISREG(status.st_mode)) fail(EINVAL, path);
    const auto size = static_cast<size_t>(status.st_size);
    if (size == 0) return;
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) fail(errno, path);
    bytes_ = {static_cast<const std::byte*>(address), size};
}

Mapping::~Mapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace hearth::gguf
