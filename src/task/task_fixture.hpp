// A small store and a batch over it, for tests that call tasks one by one, and check what each leaves for the next.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "task/evict-inl.hpp"
#include "task/execute-inl.hpp"
#include "task/index_room.hpp"
#include "task/key_compare-inl.hpp"
#include "task/memory.hpp"
#include "task/rescue-inl.hpp"
#include "task/store_fixture.hpp"
#include "task/write_operation-inl.hpp"

namespace tandem {

class TaskTest : public SmallStore {
 protected:
  explicit TaskTest(StorePolicy policy = {}, std::uint64_t memory_bytes = std::uint64_t{8} << 20, bool ordered = false)
      : SmallStore({.policy = policy,
                    .memory_bytes = memory_bytes,
                    .cells = ordered ? 1u << 18 : 1u << 12,
                    .ordered = ordered}) {}

  // For the batch's query i, with its key hashed.
  QueryState look(std::uint32_t i = 0) {
    const Query& q = batch_.query(i);
    batch_.fingerprints()[i] = fingerprint_of(q.key, q.key_bytes, shared_.hash_seed);
    QueryState state;
    state.query = i;
    state.now_s = clock_.now_s();
    state.plain_read = q.is_plain_read();
    return state;
  }
  // Its candidate. REQUIRES: inside an epoch.
  void search(QueryState& state) { search(batch_, state); }
  void search(Batch& batch, QueryState& state) {
    state.flush_cas = shared_.flush_cas.load(std::memory_order_acquire);
    const Fingerprint* const f = batch.fingerprints() + state.query;
    Location* const found = batch.locations() + state.query;
    index_.search_second(f, index_.search_first(f, 1, found), found);
  }
  // One query through MM, Search and its write, as a batch of its own. Leaves the query's result in the batch.
  task::Settled write() {
    QueryState state = look();
    EXPECT_TRUE(task::prepare_write(context_, batch_, state));
    context_.enter();
    search(state);
    const task::Settled settled = task::write_operation<CuckooIndex>(context_, batch_, state);
    task::release_slots(context_, state);
    context_.retire_displaced();
    context_.epoch.exit();
    return settled;
  }
  Status set(std::string_view key, std::string_view value, StoreMode mode = StoreMode::set) {
    clear();
    add(Opcode::store, key, value).mode = mode;
    EXPECT_EQ(write(), task::Settled::done);
    const Status status = batch_.result(0).status;
    clear();
    return status;
  }

  // A set that makes room in the index where it needs some, as a caller and, unless growth is refused, maintenance
  // do.
  Status store(const std::string& key, std::string_view value, std::uint32_t client_flags = 0,
               std::uint32_t expiry_s = Clock::never) {
    for (;;) {
      clear();
      Query& q = add(Opcode::store, key, value);
      q.client_flags = client_flags;
      q.expiry_s = expiry_s;
      const task::Settled settled = write();
      if (settled == task::Settled::done) return batch_.result(0).status;
      if (!shared_.growth_refused && index_.wants_growth()) index_.grow(context_.epoch);
      const bool has_room = task::make_index_room(context_, fingerprint_of(key, shared_.hash_seed), key);
      if (settled != task::Settled::needs_room || !has_room) return Status::out_of_memory;
    }
  }

  // The key's item, and its value; nullptr: there is none. REQUIRES: no other thread uses the store.
  const Item* find(std::string_view key) {
    ItemVersion seen;
    const bool enters = !context_.epoch.active();
    if (enters) context_.enter();
    const Item* const item = index_.find(fingerprint_of(key, shared_.hash_seed), key, seen);
    if (enters) context_.epoch.exit();
    return item;
  }
  std::string value_of(std::string_view key) {
    const Item* const item = find(key);
    return item == nullptr ? std::string("(none)") : std::string(item->value(), heap_.value_bytes(item));
  }
};

}  // namespace tandem
