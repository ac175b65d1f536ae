#include "runtime/thread_pool.h"

#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hearth::runtime {

namespace {

void pause_cpu() noexcept {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Long enough to bridge the serial work between two ops of a forward pass, short enough not to matter.
constexpr int kSpins = 4000;

// Beyond any machine's cores; a mistaken number must not bring the system down.
constexpr int kMaxThreads = 1024;

} // namespace

// Marks the pool as taken, or throws when it is.
class ThreadPool::Region {
public:
    explicit Region(std::atomic<bool>& taken) : taken_(taken) {
        if (taken_.exchange(true, std::memory_order_acquire))
            throw std::logic_error("the thread pool is already at work");
    }
    ~Region() { taken_.store(false, std::memory_order_release); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

private:
    std::atomic<bool>& taken_;
};

ThreadPool::ThreadPool(int threads) {
    if (threads < 1 || threads > kMaxThreads)
        throw std::invalid_argument("a thread pool takes 1 to " + std::to_string(kMaxThreads) + " threads, not " +
                                    std::to_string(threads));
    workers_.reserve(static_cast<size_t>(threads - 1));
    try {
        for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { loop(i); });
    } catch (...) { // the system has no more threads to give; those that run must end before their memory goes
        stop();
        throw;
    }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
    stop_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (auto& t : workers_) t.join();
}

void ThreadPool::work(int worker) noexcept {
    for (;;) {
        const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= n_) return;
        try {
            item_(ctx_, i, worker);
        } catch (...) {
            const std::lock_guard lock(error_mutex_);
            if (!error_) error_ = std::current_exception();
        }
    }
}

void ThreadPool::run(int64_t n, Item item, void* ctx) {
    if (n <= 0) return;
    const Region region(in_region_);
    if (workers_.empty() || n == 1) {
        for (int64_t i = 0; i < n; ++i) item(ctx, i, 0);
        return;
    }
    item_ = item;
    ctx_ = ctx;
    n_ = n;
    next_.store(0, std::memory_order_relaxed);
    running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1); // publishes the region
    if (sleepers_.load() > 0) generation_.notify_all();
    work(0);
    int spins = 0;
    for (int left = running_.load(std::memory_order_acquire); left != 0;
         left = running_.load(std::memory_order_acquire)) {
        // On a busy machine a worker may not have run yet at all: give it the core.
        if (++spins > kSpins) {
            running_.wait(left, std::memory_order_acquire);
            spins = 0;
        } else {
            pause_cpu();
        }
    }
    if (error_) {
        std::exception_ptr error;
        std::swap(error, error_);
        std::rethrow_exception(error);
    }
}

void ThreadPool::loop(int worker) noexcept {
    uint32_t seen = 0;
    for (;;) {
        int spins = 0;
        while (generation_.load(std::memory_order_acquire) == seen) {
            if (++spins <= kSpins) {
                pause_cpu();
                continue;
            }
            sleepers_.fetch_add(1);
            if (generation_.load() == seen) generation_.wait(seen);
            sleepers_.fetch_sub(1);
        }
        seen = generation_.load(std::memory_order_acquire);
        if (stop_.load()) return;
        work(worker);
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
}

} // namespace hearth::runtime
