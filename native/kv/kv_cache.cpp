#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace hearth::kv {

namespace {

int64_t pages_for(int64_t tokens) { return (tokens + cpu::kPageTokens - 1) / cpu::kPageTokens; }

} // namespace

KvCache::KvCache(int layers, int kv_heads, int head_dim, int64_t capacity, std::unique_ptr<KvFormat> format)
    : kv_heads_(kv_heads),
      head_dim_(head_dim),
      format_(std::move(format)),
      head_bytes_(format_->page_bytes(head_dim)),
      page_bytes_(head_bytes_ * 2 * static_cast<size_t>(kv_heads) * static_cast<size_t>(layers)) {
    if (capacity < 1) throw std::invalid_argument("the KV cache needs room for at least one token");
    const int64_t pages = (capacity - 1) / cpu::kPageTokens + 1; // pages_for would overflow for the largest
    if (pages > INT32_MAX || static_cast<uint64_t>(pages) > SIZE_MAX / 2 / page_bytes_)
        throw std::invalid_argument("a KV cache of " + std::to_string(capacity) + " tokens does not fit any memory");
    data_ = quant::allocate_pages(page_bytes_ * static_cast<size_t>(pages));
    users_.assign(static_cast<size_t>(pages), 0);
    for (int64_t i = pages - 1; i >= 0; --i) free_pages_.push_back(static_cast<int32_t>(i));
}

KvCache::Sequence& KvCache::at(int seq) { return const_cast<Sequence&>(std::as_const(*this).at(seq)); }

const KvCache::Sequence& KvCache::at(int seq) const {
    if (seq < 0 || static_cast<size_t>(seq) >= sequences_.size() || !sequences_[static_cast<size_t>(seq)].live)
        throw std::invalid_argument("no sequence " + std::to_string(seq));
    return sequences_[static_cast<size_t>(seq)];
}

bool KvCache::writes_shared_page(const Sequence& s) const {
    return s.length % cpu::kPageTokens != 0 && users_[static_cast<size_t>(s.pages.back())] > 1;
}

int32_t KvCache::take_page() {
    const int32_t page = free_pages_.back();
    free_pages_.pop_back();
    users_[static_cast<size_t>(page)] = 1;
    return page;
}

void KvCache::drop_page(int32_t page) {
    if (--users_[static_cast<size_t>(page)] == 0) free_pages_.push_back(page);
}

void KvCache::drop_pages_from(Sequence& s, size_t first) {
    while (s.pages.size() > first) {
        drop_page(s.pages.back());
        s.pages.pop_back();
    }
}

int KvCache::new_sequence() {
    for (size_t i = 0; i < sequences_.size(); ++i)
        if (!sequences_[i].live) {
            sequences_[i] = Sequence{.pages = {}, .length = 0, .live = true};
            return static_cast<int>(i);
        }
    sequences_.push_back(Sequence{.pages = {}, .length = 0, .live = true});
    return static_cast<int>(sequences_.size()) - 1;
}

void KvCache::free_sequence(int seq) {
    Sequence& s = at(seq);
    drop_pages_from(s, 0);
    s.live = false;
}

int KvCache::fork_sequence(int seq, int64_t length) {
    if (length < 0 || length > at(seq).length)
        throw std::invalid_argument("cannot fork " + std::to_string(length) + " positions of a sequence of " +
                                    std::to_string(at(seq).length));
    const auto& shared = at(seq).pages;
    std::vector<int32_t> pages(shared.begin(), shared.begin() + pages_for(length));
    const int fork = new_sequence();
    for (const int32_t page : pages) ++users_[static_cast<size_t>(page)];
    Sequence& to = at(fork);
    to.pages = std::move(pages);
    to.length = length;
    return fork;
}

void KvCache::truncate(int seq, int64_t length) {
    Sequence& s = at(seq);
    if (length < 0 || length > s.length)
        throw std::invalid_argument("cannot truncate a sequence of " + std::to_string(s.length) + " positions to " +
                                    std::to_string(length));
    drop_pages_from(s, static_cast<size_t>(pages_for(length)));
    s.length = length;
}

void KvCache::reserve(std::span<const Growth> growths) {
    size_t needed = 0;
    std::vector<int32_t> shared; // pages about to be written that other sequences hold too
    for (const auto& [seq, n] : growths) {
        Sequence& s = at(seq);
        const auto pages = static_cast<size_t>(pages_for(s.length + n));
        s.pages.reserve(pages); // here, where nothing has changed yet, memory may run out
        needed += pages - s.pages.size();
        if (writes_shared_page(s)) shared.push_back(s.pages.back());
    }
    std::ranges::sort(shared);
    for (auto first = shared.begin(); first != shared.end();) {
        const auto last = std::upper_bound(first, shared.end(), *first);
        // Each writer needs a copy, but where all users of a page write, one of them keeps it.
        needed += static_cast<size_t>(std::min<int64_t>(last - first, users_[static_cast<size_t>(*first)] - 1));
        first = last;
    }
    if (needed > free_pages_.size())
        throw OutOfPages(std::to_string(needed) + " pages are needed, but " + std::to_string(free_pages_.size()) +
                         " of the KV cache's " + std::to_string(users_.size()) + " pages are free");
    for (const auto& [seq, n] : growths) {
        Sequence& s = at(seq);
        if (writes_shared_page(s)) {
            const int32_t copy = take_page();
            std::memcpy(data_.get() + static_cast<size_t>(copy) * page_bytes_,
                        data_.get() + static_cast<size_t>(s.pages.back()) * page_bytes_, page_bytes_);
            drop_page(s.pages.back());
            s.pages.back() = copy;
        }
        while (static_cast<int64_t>(s.pages.size()) < pages_for(s.length + n)) s.pages.push_back(take_page());
    }
}

void KvCache::release_reserved(int seq) {
    Sequence& s = at(seq);
    drop_pages_from(s, static_cast<size_t>(pages_for(s.length)));
}

void KvCache::read_pages(int seq, int64_t first_page, int64_t count, std::byte* out) const {
    const Sequence& s = at(seq);
    const int64_t whole = s.length / cpu::kPageTokens;
    if (first_page < 0 || count < 0 || first_page > whole || count > whole - first_page)
        throw std::invalid_argument("sequence " + std::to_string(seq) + " has " + std::to_string(whole) +
                                    " whole pages, not " + std::to_string(count) + " from page " +
                                    std::to_string(first_page) + " on");
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(out + static_cast<size_t>(i) * page_bytes_,
                    data_.get() + static_cast<size_t>(s.pages[static_cast<size_t>(first_page + i)]) * page_bytes_,
                    page_bytes_);
}

void KvCache::append_pages(int seq, int64_t count, const std::byte* pages) {
    Sequence& s = at(seq);
    if (s.length % cpu::kPageTokens != 0)
        throw std::invalid_argument("sequence " + std::to_string(seq) + " ends within a page, at position " +
                                    std::to_string(s.length));
    const size_t first = s.pages.size();
    const Growth growth{.seq = seq, .n = count * cpu::kPageTokens};
    reserve({&growth, 1});
    for (size_t i = first; i < s.pages.size(); ++i)
        std::memcpy(data_.get() + static_cast<size_t>(s.pages[i]) * page_bytes_, pages + (i - first) * page_bytes_,
                    page_bytes_);
    commit(seq, growth.n);
}

} // namespace hearth::kv
