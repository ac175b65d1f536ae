// Runs one check of the thread pool and ends with 0, or says what went wrong and ends with 1. Test code.
//
//   thread_pool_driver CHECK THREADS
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/thread_pool.h"

namespace {

using hearth::runtime::ThreadPool;

void require(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
}

// Every item runs once, whatever their number; plain memory written by workers is the caller's to read afterwards.
void each_item_once(ThreadPool& pool) {
    for (int64_t n = 0; n < 40; ++n) {
        std::vector<int> runs(static_cast<size_t>(n), 0);
        pool.parallel_for(n, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
        require(std::count(runs.begin(), runs.end(), 1) == n, "an item did not run once");
    }
}

void worker_numbers(ThreadPool& pool) {
    // Plain counters, one a worker: were a number used by two threads at once, a sanitizer would see the race.
    std::vector<int64_t> done(static_cast<size_t>(pool.size()), 0);
    pool.parallel_for(2000, [&](int64_t, int worker) {
        require(worker >= 0 && worker < pool.size(), "a worker's number is out of range");
        ++done[static_cast<size_t>(worker)];
    });
    require(std::accumulate(done.begin(), done.end(), int64_t{0}) == 2000, "items were lost");
}

void many_small_regions(ThreadPool& pool) {
    int64_t sum = 0;
    for (int64_t region = 0; region < 200; ++region) {
        int64_t parts[3] = {};
        pool.parallel_for(3, [&](int64_t i) { parts[i] = region + i; });
        sum += parts[0] + parts[1] + parts[2];
    }
    require(sum == 3 * (200 * 199 / 2) + 3 * 200, "a region returned before its items were done");
}

template <class Error>
void throws_once(ThreadPool& pool, const std::function<void(int64_t)>& item) {
    for (int round = 0; round < 10; ++round) {
        int caught = 0;
        try {
            pool.parallel_for(64, item);
        } catch (const Error&) {
            ++caught;
        }
        require(caught == 1, "the error did not reach the caller");
        std::atomic<int64_t> sum{0};
        pool.parallel_for(64, [&](int64_t i) { sum += i; }); // throws again if an error was left behind
        require(sum == 64 * 63 / 2, "the pool does not work after an error");
    }
}

void one_item_throws(ThreadPool& pool) {
    throws_once<std::runtime_error>(pool, [](int64_t i) {
        if (i == 40) throw std::runtime_error("item 40");
    });
}

void all_items_throw(ThreadPool& pool) {
    throws_once<std::runtime_error>(pool, [](int64_t i) { throw std::runtime_error(std::to_string(i)); });
}

void memory_runs_out(ThreadPool& pool) {
    throws_once<std::bad_alloc>(pool, [](int64_t) { throw std::bad_alloc(); });
}

void nesting(ThreadPool& pool) {
    throws_once<std::logic_error>(pool, [&](int64_t) { pool.parallel_for(4, [](int64_t) {}); });
}

// Pools that never worked, that just worked, and that have gone to sleep end alike.
void ending(ThreadPool& pool) {
    for (int round = 0; round < 10; ++round) {
        ThreadPool other(pool.size());
        if (round % 2 == 1) other.parallel_for(8, [](int64_t) {});
        if (round % 4 == 3) many_small_regions(pool); // meanwhile the other's workers fall asleep
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::map<std::string, void (*)(ThreadPool&)> checks{
        {"each_item_once", each_item_once},
        {"worker_numbers", worker_numbers},
        {"many_small_regions", many_small_regions},
        {"one_item_throws", one_item_throws},
        {"all_items_throw", all_items_throw},
        {"memory_runs_out", memory_runs_out},
        {"nesting", nesting},
        {"ending", ending},
    };
    require(argc == 3 && checks.contains(argv[1]), "usage: thread_pool_driver CHECK THREADS");
    ThreadPool pool(std::atoi(argv[2]));
    require(pool.size() == std::atoi(argv[2]), "the pool has another size");
    checks.at(argv[1])(pool);
    return 0;
}
