#include "gguf/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace hearth::gguf {

Mapping::Mapping(const Source& file) {
    if (file.size() == 0) return;
    void* address = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping a model file");
    bytes_ = {static_cast<const std::byte*>(address), file.size()};
}

Mapping::~Mapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace hearth::gguf
