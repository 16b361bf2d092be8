// For tests: a small store, and a batch of queries whose strings live as long as the batch.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <string_view>

#include "index/cuckoo/cuckoo_index.hpp"
#include "query/query_of.hpp"
#include "task/codes.hpp"
#include "task/context.hpp"

namespace tandem {

struct SmallStoreOptions {
  StorePolicy policy{};
  std::uint64_t memory_bytes = std::uint64_t{8} << 20;
  std::uint64_t cells = 1 << 12;
  bool ordered = false;
  std::uint32_t batch_queries = 64;
};

class SmallStore : public testing::Test {
 protected:
  static constexpr std::uint32_t now_s = 1000;

  explicit SmallStore(const SmallStoreOptions& o)
      : budget_(o.memory_bytes),
        epochs_(8),
        heap_({.item_bytes_max = o.policy.item_bytes_max, .huge_pages = false}, budget_, epochs_),
        index_({.cells_initial = o.cells, .hash_seed = 7, .huge_pages = false, .ordered = o.ordered}, budget_, epochs_,
               heap_),
        placement_(index_, heap_),
        shared_{.heap = heap_,
                .index = index_,
                .code = cuckoo_code,
                .placement = placement_,
                .epochs = epochs_,
                .clock = clock_,
                .policy = o.policy,
                .hash_seed = 7},
        context_(shared_),
        batch_(o.batch_queries) {
    clock_.freeze_for_test(now_s);
    shared_.growth_refused = true;  // maintenance does not run: a full index evicts
  }

  Query& add(Opcode opcode, std::string_view key, std::string_view value = {}, std::uint16_t options = 0) {
    const std::string& k = texts_.emplace_back(key);
    const std::string& v = texts_.emplace_back(value);
    Query& q = batch_.next();
    q = query_of(opcode, k, v);
    q.options = options;
    q.delta = 1;
    batch_.commit();
    return q;
  }
  void clear() {
    batch_.clear();
    texts_.clear();
  }

  MemoryBudget budget_;
  EpochDomain epochs_;
  Clock clock_;
  Heap heap_;
  CuckooIndex index_;
  IndexPlacement placement_;
  Shared shared_;
  Context context_;
  Batch batch_;
  std::deque<std::string> texts_;
};

}  // namespace tandem
