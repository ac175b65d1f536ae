// Preloaded in front of the C++ library: makes one chosen allocation fail. Test code.
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> left{-1};
} // namespace

// The allocation after the next n fails; a negative n lets all succeed. Returns whether the one chosen last failed.
extern "C" bool fail_allocation(long n) {
    static bool armed = false;
    const bool failed = armed && left.exchange(n) < 0;
    left.store(n);
    armed = n >= 0;
    return failed;
}

void* operator new(std::size_t bytes) {
    if (left.load() >= 0 && left.fetch_sub(1) == 0) throw std::bad_alloc();
    void* p = std::malloc(bytes == 0 ? 1 : bytes);
    if (p == nullptr) throw std::bad_alloc();
    return p;
}

void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
