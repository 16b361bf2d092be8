// The same random operations on every kind of lanes and on a plain model. For cuckoo_test.cpp, cuckoo_fuzz.cpp and the
// AArch64 check of tests/model, so it uses only the standard library.
#pragma once
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "index/cuckoo/cuckoo.hpp"

namespace tandem {

inline std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

// A key's fingerprint; `signatures` limits the number of different signatures (0: 2^32 - 1), so that equal ones can be
// forced.
inline Fingerprint check_fingerprint(std::uint64_t key, std::uint32_t signatures) {
  const std::uint64_t h = mix_bits(key + 1);
  auto signature = static_cast<std::uint32_t>(h >> 32);
  if (signatures != 0) signature = static_cast<std::uint32_t>(mix_bits(signature % signatures + 7));
  return {signature != 0 ? signature : 1, static_cast<std::uint32_t>(h)};
}

// A table and its view, without a budget.
class CheckTable {
 public:
  explicit CheckTable(std::uint32_t buckets)
      : memory_(std::make_unique<Bucket[]>(buckets)), view_{memory_.get(), buckets - 1} {}
  IndexView view() const { return view_; }
  std::uint64_t bytes() const { return (std::uint64_t{view_.mask} + 1) * sizeof(Bucket); }
  // Number of cells with this signature and location in the whole table.
  std::uint32_t count(Cell c) const {
    std::uint32_t n = 0;
    for (std::uint64_t b = 0; b <= view_.mask; ++b) {
      for (const std::uint64_t bits : view_.buckets[b].cell) n += bits == c.bits;
    }
    return n;
  }
  std::uint64_t cells_used() const {
    std::uint64_t n = 0;
    for (std::uint64_t b = 0; b <= view_.mask; ++b) {
      for (const std::uint64_t bits : view_.buckets[b].cell) n += bits != 0;
    }
    return n;
  }

 private:
  std::unique_ptr<Bucket[]> memory_;
  IndexView view_;
};

// Drives all kinds of lanes of this processor through one sequence of operations. Every answer is compared with the
// model's, and all tables must stay the same byte for byte. Keys are numbers; `signatures`: see check_fingerprint().
class CuckooCheck {
 public:
  CuckooCheck(std::uint32_t buckets, std::uint32_t signatures) : signatures_(signatures) {
    for (const CuckooOps* ops : cuckoo_ops_built()) {
      if (ops->supported()) sides_.push_back({ops, CheckTable(buckets)});
    }
  }

  std::size_t kinds() const { return sides_.size(); }
  std::uint64_t items() const { return model_.size(); }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t operations() const { return operations_; }
  const std::string& problem() const { return problem_; }  // empty: none

  Fingerprint fingerprint(std::uint64_t key) const { return check_fingerprint(key, signatures_); }

  void insert(std::uint64_t key) {
    if (model_.contains(key)) return remove(key);
    ++operations_;
    const Fingerprint f = fingerprint(key);
    const std::uint32_t location = ++next_location_;
    const bool added = sides_[0].ops->insert(sides_[0].table.view(), f, location);
    for (std::size_t i = 1; i < sides_.size(); ++i) {
      if (sides_[i].ops->insert(sides_[i].table.view(), f, location) != added) fail(i, "insert", key);
    }
    if (added) {
      model_.emplace(key, location);
    } else {
      ++refused_;
    }
  }

  void remove(std::uint64_t key) {
    ++operations_;
    const Fingerprint f = fingerprint(key);
    const auto it = model_.find(key);
    const std::uint32_t location = it != model_.end() ? it->second : next_location_ + 1;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i].ops->erase(sides_[i].table.view(), f, location) != (it != model_.end())) fail(i, "erase", key);
    }
    if (it != model_.end()) model_.erase(it);
  }

  // Looks keys up in every order of work. With unique signatures the answer must be the model's. With forced ones it
  // must be a location of a key with the same fingerprint signature, or none if no such key is in the table.
  void search(const std::vector<std::uint64_t>& keys) {
    std::vector<Fingerprint> f;
    for (const std::uint64_t key : keys) f.push_back(fingerprint(key));
    std::vector<std::uint32_t> location(keys.size());
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const CuckooOps& ops = *sides_[i].ops;
      for (const CuckooOps::Search order : {ops.search_both, ops.search_two_pass, ops.search_in_turn}) {
        ++operations_;
        std::fill(location.begin(), location.end(), 0xffffffff);
        order(sides_[i].table.view(), f.data(), static_cast<std::uint32_t>(f.size()), location.data(), nullptr);
        for (std::size_t k = 0; k < keys.size(); ++k) check_answer(i, keys[k], f[k], location[k]);
      }
    }
  }

  // Every key of the model is in exactly one cell, the table has nothing else, and all kinds of lanes left the same
  // bytes.
  void check_whole() {
    const CheckTable& table = sides_[0].table;
    if (table.cells_used() != model_.size()) fail(0, "cells used", table.cells_used());
    std::vector<std::uint64_t> keys;
    for (const auto& [key, location] : model_) keys.push_back(key);
    search(keys);
    for (std::size_t i = 1; i < sides_.size(); ++i) {
      if (std::memcmp(sides_[i].table.view().buckets, table.view().buckets, table.bytes()) != 0)
        fail(i, "other bytes", 0);
    }
  }

 private:
  struct Side {
    const CuckooOps* ops;
    CheckTable table;
  };

  void check_answer(std::size_t side, std::uint64_t key, Fingerprint f, std::uint32_t location) {
    const auto it = model_.find(key);
    if (signatures_ == 0) {
      if (location != (it != model_.end() ? it->second : 0)) fail(side, "search", key);
      return;
    }
    if (location == 0 ? it != model_.end() : !in_buckets(side, f, location))
      fail(side, "search among equal signatures", key);
  }
  bool in_buckets(std::size_t side, Fingerprint f, std::uint32_t location) const {
    const IndexView view = sides_[side].table.view();
    for (const std::uint32_t b : {view.first(f), view.second(f)}) {
      for (const std::uint64_t bits : view.buckets[b].cell) {
        if (bits == Cell::of(f.signature, location).bits) return true;
      }
    }
    return false;
  }
  void fail(std::size_t side, const char* what, std::uint64_t key) {
    if (problem_.empty()) {
      problem_ = std::string(sides_[side].ops->name) + ": " + what + ", key " + std::to_string(key) + ", operation " +
                 std::to_string(operations_);
    }
  }

  std::uint32_t signatures_;
  std::vector<Side> sides_;
  std::unordered_map<std::uint64_t, std::uint32_t> model_;
  std::uint32_t next_location_ = 0;
  std::uint64_t refused_ = 0, operations_ = 0;
  std::string problem_;
};

// Fills a table of `buckets` to about `load` and keeps changing it at that load for `operations` operations.
inline void run_cuckoo_check(CuckooCheck& check, std::uint32_t buckets, double load, std::uint64_t operations,
                             std::uint64_t seed) {
  const auto target = static_cast<std::uint64_t>(load * bucket_cells * buckets);
  for (std::uint64_t key = 0; key < target; ++key) check.insert(key);
  std::uint64_t random = seed;
  std::vector<std::uint64_t> keys;
  std::size_t strip = 1;
  for (std::uint64_t i = 0; i < operations && check.problem().empty(); ++i) {
    random = mix_bits(random + 0x9E3779B97F4A7C15ULL);
    const std::uint64_t key = random % (target * 2 + 8);
    if (check.items() < target) {
      check.insert(key);  // removes it when it is present
    } else {
      check.remove(key);
    }
    keys.push_back(mix_bits(random) % (target * 2 + 8));
    if (keys.size() == strip) {
      check.search(keys);
      keys.clear();
      strip = 1 + random % 300;
    }
  }
  check.check_whole();
}

}  // namespace tandem
