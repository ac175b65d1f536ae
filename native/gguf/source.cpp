#include "gguf/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "gguf/gguf_file.h"

namespace hearth::gguf {
namespace {

[[noreturn]] void fail(int error, const std::string& path) {
    throw std::system_error(error, std::generic_category(), path);
}

int open_file(const std::string& path) {
    // open() would stop at an embedded zero byte and open another file.
    if (path.find('\0') != std::string::npos) fail(EINVAL, path);
    // O_NONBLOCK: a named pipe must not block the open before it is seen to be no regular file.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) fail(errno, path);
    return fd;
}

}  // namespace

Source::Source(const std::string& path) : path_(path), fd_(open_file(path)) {
    struct stat status{};
    int error = 0;
    if (::fstat(fd_, &status) != 0) {
        error = errno;
    } else if (S_ISDIR(status.st_mode)) {
        error = EISDIR;
    } else if (!S_ISREG(status.st_mode)) {
        error = EINVAL;
    }
    if (error != 0) {
        ::close(fd_);
        fail(error, path);
    }
    size_ = static_cast<size_t>(status.st_size);
    modified_ = status.st_mtim;
}

Source::~Source() { ::close(fd_); }

void Source::require_unchanged() const {
    struct stat now{};
    if (::fstat(fd_, &now) != 0 || static_cast<size_t>(now.st_size) != size_ ||
        now.st_mtim.tv_sec != modified_.tv_sec || now.st_mtim.tv_nsec != modified_.tv_nsec) {
        throw GgufError(path_ + " was changed by another program while it was in use");
    }
}

void Source::read(uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
        const ssize_t n = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw GgufError(path_ + " cannot be read any more: " + std::generic_category().message(errno));
        if (n == 0) throw GgufError(path_ + " was shortened by another program while it was in use");
        to = to.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
}

}  // namespace hearth::gguf
