// A fork-join pool for the engine's own threads. The caller is one of the workers.
//
// Between two regions that follow closely (the ops of one forward pass) workers spin for a few
// microseconds, because waking a sleeping thread costs more than the op itself; after that they sleep on
// a futex, so an idle engine burns nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace hearth::runtime {

class ThreadPool {
public:
    // threads: workers, the calling thread included. Throws std::invalid_argument when there are too few or far too
    // many, std::system_error when the system gives no more.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

    // Runs fn(i) or fn(i, worker) for every i in [0, n), in any order, and returns when all are done. Workers take
    // items one by one, so a core that is busy with something else delays no more than its own item.
    // Rethrows the first exception. Throws std::logic_error when the pool is already at work: regions do not nest, and
    // callers take turns.
    template <typename Fn>
    void parallel_for(int64_t n, Fn&& fn) {
        if constexpr (std::is_invocable_v<Fn, int64_t, int>) {
            run(
                n,
                [](void* ctx, int64_t i, int worker) { (*static_cast<std::remove_reference_t<Fn>*>(ctx))(i, worker); },
                const_cast<void*>(static_cast<const void*>(&fn)));
        } else {
            run(
                n, [](void* ctx, int64_t i, int) { (*static_cast<std::remove_reference_t<Fn>*>(ctx))(i); },
                const_cast<void*>(static_cast<const void*>(&fn)));
        }
    }

private:
    class Region;
    using Item = void (*)(void* ctx, int64_t i, int worker);

    void run(int64_t n, Item item, void* ctx);
    void work(int worker) noexcept;
    void loop(int worker) noexcept;
    void stop() noexcept;

    std::vector<std::thread> workers_;
    Item item_ = nullptr;
    void* ctx_ = nullptr;
    int64_t n_ = 0;
    std::exception_ptr error_;
    std::mutex error_mutex_;
    alignas(64) std::atomic<int64_t> next_{0};
    alignas(64) std::atomic<uint32_t> generation_{0}; // one step a region
    alignas(64) std::atomic<int> running_{0};
    alignas(64) std::atomic<int> sleepers_{0};
    std::atomic<bool> stop_{false};
    std::atomic<bool> in_region_{false};
};

} // namespace hearth::runtime
