// The order of write protocol 2: reserve, change, commit, stamp, unlock. A log that records each call together with the
// state of shared memory at that moment.
#include "index/change_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>

#include "index/cuckoo/index_test_support.hpp"
#include "index/set_associative/set_index.hpp"

namespace tandem {
namespace {

class RecordingLog final : public ChangeLog {
 public:
  struct Entry {
    enum class Call : std::uint8_t { reserve, commit, launch } call;
    std::vector<Change> changes;       // reserve
    std::vector<std::uint64_t> cells;  // the named cells of the table, as they are now
    std::vector<std::uint64_t> items;  // the state words, now, of all items that those cells have named so far
    StripeWord stripe{};
    Ticket ticket = 0;
  };

  Ticket reserve(std::span<const Change> changes) noexcept override {
    named_.assign(changes.begin(), changes.end());
    Entry e = look(Entry::Call::reserve);
    e.changes = named_;
    e.ticket = ++ticket_;
    entries.push_back(e);
    return ticket_;
  }
  void commit(Ticket ticket) noexcept override {
    Entry e = look(Entry::Call::commit);
    e.ticket = ticket;
    entries.push_back(e);
  }
  std::uint32_t launch() const noexcept override {
    entries.push_back(look(Entry::Call::launch));
    return now;
  }

  // Provides what the log needs to read that state.
  void watch(TestStore& store, Fingerprint f) {
    store_ = &store;
    f_ = f;
    items_.clear();
  }

  mutable std::vector<Entry> entries;
  std::uint32_t now = 1;

 private:
  Entry look(Entry::Call call) const {
    Entry e{.call = call, .changes = {}, .cells = {}, .items = {}};
    if (store_ == nullptr) return e;
    e.stripe = store_->index.stripe(f_);
    for (const Change& c : named_) {
      std::uint64_t bits = 0;
      store_->index.for_each_cell([&](const Table& table, std::uint64_t cell_index, Cell cell) {
        if (table.serial() == c.table && cell_index == c.cell_index) bits = cell.bits;
      });
      e.cells.push_back(bits);
      const Location l = Cell{bits}.location();
      if (l != no_location && std::ranges::find(items_, l) == items_.end()) items_.push_back(l);
    }
    for (const Location l : items_) e.items.push_back(store_->heap.at(l)->state_acquire());
    return e;
  }

  TestStore* store_ = nullptr;
  Fingerprint f_{};
  std::vector<Change> named_;
  mutable std::vector<Location> items_;
  Ticket ticket_ = 0;
};

using Call = RecordingLog::Entry::Call;

void expect_order(const std::vector<RecordingLog::Entry>& e, StripeWord before) {
  ASSERT_EQ(e.size(), 3u);
  EXPECT_EQ(e[0].call, Call::reserve);
  EXPECT_EQ(e[1].call, Call::commit);
  EXPECT_EQ(e[1].ticket, e[0].ticket);
  EXPECT_EQ(e[2].call, Call::launch) << "the launch number is read after the commit";
  for (const auto& entry : e) {
    EXPECT_TRUE(entry.stripe.locked()) << "all of it under the stripe";
    EXPECT_EQ(entry.stripe.version(), before.version());
    EXPECT_EQ(entry.stripe.changed_at(), before.changed_at());
  }
}

TEST(ChangeLog, AddIsReservedBeforeAndCommittedAfter) {
  RecordingLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  const Fingerprint f = store.fingerprint("k");
  log.watch(store, f);
  log.now = 5;
  const StripeWord before = store.index.stripe(f);
  worker.set("k", 1);
  expect_order(log.entries, before);
  const auto& reserve = log.entries[0];
  const auto& commit = log.entries[1];
  ASSERT_EQ(reserve.cells.size(), 1u);
  ASSERT_EQ(commit.items.size(), 1u);
  EXPECT_EQ(reserve.cells[0], 0u) << "the cell is still empty";
  EXPECT_NE(commit.cells[0], 0u);
  EXPECT_EQ(Item::state_of(commit.items[0]), ItemState::live);
  const StripeWord after = store.index.stripe(f);
  EXPECT_EQ(after.changed_at(), 5u);
  EXPECT_EQ(after.version(), before.version() + 1);
}

TEST(ChangeLog, ReplaceNamesTheCell) {
  RecordingLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  worker.set("k", 1);
  log.entries.clear();
  log.watch(store, store.fingerprint("k"));
  const StripeWord before = store.index.stripe(store.fingerprint("k"));
  worker.set("k", 2);
  expect_order(log.entries, before);
  const auto& reserve = log.entries[0];
  const auto& commit = log.entries[1];
  ASSERT_EQ(reserve.items.size(), 1u);
  ASSERT_EQ(commit.items.size(), 2u);
  EXPECT_EQ(Item::state_of(reserve.items[0]), ItemState::live) << "the old item is still there";
  EXPECT_EQ(Item::state_of(commit.items[0]), ItemState::dead);
  EXPECT_EQ(Item::state_of(commit.items[1]), ItemState::live);
  ASSERT_EQ(reserve.cells.size(), 1u);
  EXPECT_NE(reserve.cells[0], commit.cells[0]);
  EXPECT_EQ(Cell{reserve.cells[0]}.signature(), Cell{commit.cells[0]}.signature());
}

TEST(ChangeLog, EraseAndStateChanges) {
  RecordingLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  worker.set("k", 1);
  const Fingerprint f = store.fingerprint("k");
  log.watch(store, f);
  log.entries.clear();
  StripeWord before = store.index.stripe(f);
  {
    const TestWorker::Batch batch(worker);
    CuckooIndex::Guard guard = store.index.lock(f);
    ASSERT_NE(guard.find(std::string_view("k")), nullptr);
    EXPECT_TRUE(guard.update_state(word::Win::mask, word::Win::put(0, 1)));
  }
  expect_order(log.entries, before);
  ASSERT_EQ(log.entries[0].items.size(), 1u);
  EXPECT_EQ(word::Win::get(log.entries[0].items[0]), 0u);
  EXPECT_EQ(word::Win::get(log.entries[1].items[0]), 1u);
  EXPECT_EQ(log.entries[0].cells, log.entries[1].cells) << "the cell is named, since its item changed";
  log.entries.clear();
  before = store.index.stripe(f);
  worker.erase("k");
  expect_order(log.entries, before);
  EXPECT_EQ(Item::state_of(log.entries[0].items[0]), ItemState::live);
  EXPECT_EQ(Item::state_of(log.entries[1].items[0]), ItemState::dead);
  EXPECT_NE(log.entries[0].cells[0], 0u);
  EXPECT_EQ(log.entries[1].cells[0], 0u);
}

TEST(ChangeLog, LookingAndFailingSayNothing) {
  RecordingLog log;
  TestStore store({.log = &log});
  TestWorker worker(store);
  worker.set("k", 1);
  log.entries.clear();
  worker.get("k");
  worker.get("none");
  worker.erase("none");
  worker.set("k", 2, true);
  EXPECT_TRUE(log.entries.empty());
}

// A displacement names the victim's new and old cell, copies, then clears: at the commit only the new place has the
// cell.
TEST(ChangeLog, DisplacementNamesBothCells) {
  RecordingLog log;
  TestStore store({.cells = 512, .load_grow = 2, .log = &log});
  TestWorker worker(store);
  std::uint64_t n = 0;
  while (worker.rooms == 0) {
    log.entries.clear();
    log.watch(store, store.fingerprint(key_of(n)));
    ASSERT_EQ(worker.set(key_of(n), n), TestWorker::Outcome::done);
    ++n;
  }
  // The last set was refused, moved some cells, and then succeeded: triples of calls, the last of them the add.
  ASSERT_EQ(log.entries.size() % 3, 0u);
  ASSERT_GE(log.entries.size(), 6u);
  for (std::size_t i = 0; i + 3 < log.entries.size(); i += 3) {
    const auto& reserve = log.entries[i];
    const auto& commit = log.entries[i + 1];
    ASSERT_EQ(reserve.call, Call::reserve);
    ASSERT_EQ(commit.call, Call::commit);
    ASSERT_EQ(log.entries[i + 2].call, Call::launch);
    ASSERT_EQ(reserve.cells.size(), 2u);
    EXPECT_EQ(reserve.cells[0], 0u);
    EXPECT_NE(reserve.cells[1], 0u);
    EXPECT_EQ(commit.cells[0], reserve.cells[1]);
    EXPECT_EQ(commit.cells[1], 0u);
  }
}

// What a growth copies is not named: a follower of the new table uploads it when the growth has ended. Afterwards
// changes carry the new table's serial number.
TEST(ChangeLog, GrowthNamesNoCopies) {
  RecordingLog log;
  TestStore store({.cells = 512, .log = &log});
  TestWorker worker(store);
  for (std::uint64_t n = 0; n < 300; ++n) worker.set(key_of(n), n);
  log.entries.clear();
  ASSERT_TRUE(worker.grow());
  for (const auto& e : log.entries) EXPECT_TRUE(e.changes.empty());
  log.entries.clear();
  worker.set(key_of(7), 8);
  std::size_t cells = 0;
  for (const auto& e : log.entries) {
    for (const Change& c : e.changes) {
      EXPECT_EQ(c.table, 2u);
      ++cells;
    }
  }
  EXPECT_EQ(cells, 1u);
}

// A replica built from the log alone equals the table once the writers have stopped (write protocol 6; the model
// checker covers its races).
class NamingLog final : public ChangeLog {
 public:
  Ticket reserve(std::span<const Change> changes) noexcept override {
    const std::lock_guard lock(mutex_);
    for (const Change& c : changes) dirty_[c.table].insert(c.cell_index);
    return 0;
  }
  void commit(Ticket) noexcept override {}
  std::uint32_t launch() const noexcept override { return 0; }
  const std::set<std::uint64_t>& dirty(std::uint32_t table) { return dirty_[table]; }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::set<std::uint64_t>> dirty_;
};

TEST(ChangeLog, EveryCellThatChangedWasNamed) {
  NamingLog log;
  TestStore store({.cells = 1 << 10, .load_grow = 2, .log = &log});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&store, t] {
      TestWorker worker(store);
      std::uint64_t random = t;
      for (int i = 0; i < 2'000 * effort; ++i) {
        random = mix_bits(random + 1);
        const std::string key = key_of(random % 970);
        if ((random >> 32) % 8 == 0) {
          worker.erase(key);
        } else {
          worker.set(key, random);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::uint64_t cells = 0;
  store.index.for_each_cell([&](const Table& table, std::uint64_t cell_index, Cell) {
    ++cells;
    ASSERT_TRUE(log.dirty(table.serial()).contains(cell_index));
  });
  EXPECT_GT(cells, 0u);
}

// A set's writers: the same order, and the set's word tells the launch.
TEST(ChangeLog, OfSets) {
  class Log final : public ChangeLog {
   public:
    Ticket reserve(std::span<const Change> changes) noexcept override {
      reserved.assign(changes.begin(), changes.end());
      note("reserve");
      return 7;
    }
    void commit(Ticket ticket) noexcept override {
      EXPECT_EQ(ticket, 7u);
      note("commit");
    }
    std::uint32_t launch() const noexcept override {
      note("launch");
      return now;
    }
    void note(const char* call) const {
      if (store == nullptr) return;
      const FollowedTable table = store->index.followed();
      EXPECT_TRUE(store->index.stripe(f).locked()) << call;
      ASSERT_EQ(reserved.size(), 1u);
      EXPECT_EQ(reserved[0].table, table.serial);
      EXPECT_EQ(reserved[0].cell_index / set_cells, set_number(f, table.shape.sets));
      const Location l = Cell{*table.cells.at(reserved[0].cell_index)}.location();
      calls += std::string(call) + (l != no_location ? " full, " : " empty, ");
    }
    BasicTestStore<SetAssociativeIndex>* store = nullptr;
    Fingerprint f{};
    std::uint32_t now = 5;
    std::vector<Change> reserved;
    mutable std::string calls;
  };
  Log log;
  BasicTestStore<SetAssociativeIndex> store({.log = &log});
  BasicTestWorker<SetAssociativeIndex> worker(store);
  const Fingerprint f = log.f = store.fingerprint("k");
  EXPECT_EQ(store.index.stripe(f).changed_at(), 0u);
  log.store = &store;
  const auto told = [&] { return std::exchange(log.calls, {}); };
  worker.set("k", 1);
  EXPECT_EQ(told(), "reserve empty, commit full, launch full, ");
  EXPECT_FALSE(store.index.stripe(f).locked());
  EXPECT_EQ(store.index.stripe(f).changed_at(), 5u);
  log.now = 6;
  worker.get("k");
  worker.set("k", 2, true);
  worker.erase("none");
  EXPECT_EQ(told(), "");
  EXPECT_EQ(store.index.stripe(f).changed_at(), 5u);
  worker.set("k", 2);
  EXPECT_EQ(told(), "reserve full, commit full, launch full, ");
  EXPECT_EQ(store.index.stripe(f).changed_at(), 6u);
  log.now = 7;
  worker.touch("k", 9);
  EXPECT_EQ(told(), "reserve full, commit full, launch full, ");
  EXPECT_EQ(store.index.stripe(f).changed_at(), 7u);
  worker.rewrite("k", [](std::uint64_t value) { return value + 1; });
  EXPECT_EQ(told(), "reserve full, commit full, launch full, ") << "there is no ring for images";
  log.now = 8;
  worker.erase("k");
  EXPECT_EQ(told(), "reserve full, commit empty, launch empty, ");
  EXPECT_EQ(store.index.stripe(f).changed_at(), 8u);
}

}  // namespace
}  // namespace tandem
