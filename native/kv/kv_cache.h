// Keys and values of all sequences, in pages of 64 positions aligned to absolute positions.
//
// A page holds every layer and head of its 64 positions, so memory grows with what is used. Pages are
// counted: forked sequences share them, and a shared page is copied before it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "kv/kv_format.h"
#include "quant/packed.h"

namespace hearth::kv {

// The page pool is full.
class OutOfPages : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Positions to add to a sequence.
struct Growth {
    int seq;
    int64_t n;
};

class KvCache {
public:
    // capacity: positions, rounded up to whole pages.
    KvCache(int layers, int kv_heads, int head_dim, int64_t capacity, std::unique_ptr<KvFormat> format);

    int new_sequence();
    void free_sequence(int seq);
    // A new sequence with the first `length` positions of seq; it shares their pages.
    int fork_sequence(int seq, int64_t length);
    // Forgets positions >= length.
    void truncate(int seq, int64_t length);
    int64_t length(int seq) const { return at(seq).length; }
    int64_t free_tokens() const noexcept { return static_cast<int64_t>(free_pages_.size()) * cpu::kPageTokens; }

    // Makes positions [length, length + n) of different sequences writable. Throws OutOfPages, then with nothing
    // changed.
    void reserve(std::span<const Growth> growths);
    // Takes reserved positions into the sequence.
    void commit(int seq, int64_t n) { at(seq).length += n; }
    // Gives back pages that were reserved and not committed.
    void release_reserved(int seq);

    // Bytes of a page with everything that it holds, and the pages that nobody holds.
    size_t page_bytes() const noexcept { return page_bytes_; }
    int64_t free_pages() const noexcept { return static_cast<int64_t>(free_pages_.size()); }
    // Copies `count` pages of seq, all of whose positions must be written, to `out`.
    void read_pages(int seq, int64_t first_page, int64_t count, std::byte* out) const;
    // Continues seq, whose length must be at a page's border, with pages that read_pages copied. Throws OutOfPages
    // and then changes nothing.
    void append_pages(int seq, int64_t count, const std::byte* pages);

    const KvFormat& format() const noexcept { return *format_; }
    int kv_heads() const noexcept { return kv_heads_; }
    int head_dim() const noexcept { return head_dim_; }
    // Page of a position for one layer and head.
    std::byte* key_page(int seq, int64_t position, int layer, int head) {
        return page_data(seq, position, layer, head);
    }
    std::byte* value_page(int seq, int64_t position, int layer, int head) {
        return page_data(seq, position, layer, kv_heads_ + head);
    }

private:
    struct Sequence {
        std::vector<int32_t> pages;
        int64_t length = 0;
        bool live = false;
    };

    Sequence& at(int seq);
    const Sequence& at(int seq) const;
    // Whether the next position lies in a page that other sequences hold too.
    bool writes_shared_page(const Sequence& s) const;
    int32_t take_page();
    void drop_page(int32_t page);
    void drop_pages_from(Sequence& s, size_t first);
    std::byte* page_data(int seq, int64_t position, int layer, int head) {
        const int32_t page =
            sequences_[static_cast<size_t>(seq)].pages[static_cast<size_t>(position / cpu::kPageTokens)];
        return data_.get() + static_cast<size_t>(page) * page_bytes_ +
               static_cast<size_t>(layer * 2 * kv_heads_ + head) * head_bytes_;
    }

    int kv_heads_;
    int head_dim_;
    std::unique_ptr<KvFormat> format_;
    size_t head_bytes_;
    size_t page_bytes_;
    quant::AlignedBytes data_;
    std::vector<int32_t> free_pages_;
    std::vector<int32_t> users_; // sequences that hold a page
    std::vector<Sequence> sequences_;
};

} // namespace hearth::kv
