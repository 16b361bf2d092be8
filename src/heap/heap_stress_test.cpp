// Several threads at once: workers that write, evict and read over a small shared table, a mover of pages, and a
// visitor. Run under the thread and address sanitizers, too.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

constexpr int operations = is_sanitized ? 15'000 : 150'000;

// A stand-in for the index: places that name an item each. Writers of a place hold its lock, readers do not.
class Table {
 public:
  static constexpr std::size_t places = 4096;
  struct Place {
    std::mutex writers;
    std::atomic<Location> location{no_location};
  };
  Place& operator[](std::size_t i) { return places_[i]; }

 private:
  std::array<Place, places> places_;
};

class Stress {
 public:
  Stress(std::uint64_t budget_bytes, std::uint64_t item_bytes_max)
      : t_(budget_bytes, {.item_bytes_max = item_bytes_max}), item_bytes_max_(item_bytes_max) {}

  void work(unsigned id) {
    auto w = std::make_unique<TestWorker>(t_);
    TestRandom random(id);
    for (int i = 0; i < operations; ++i) {
      if (i % 5000 == 4999) w = std::make_unique<TestWorker>(t_);  // a thread ends, another starts
      w->epoch.enter();
      for (int k = 0; k < 4; ++k) {
        const std::size_t place = random.below(Table::places);
        if (random.below(3) == 0) {
          write(*w, random, place);
        } else {
          read(*w, place);
        }
      }
      w->epoch.exit();
      w->reclaim();
      if (t_.budget.used_bytes() > t_.budget.limit_bytes()) wrong_.fetch_add(1);
    }
  }

  void move_pages() {
    TestWorker w(t_);
    TestRandom random(99);
    while (workers_left_.load() != 0) {
      const std::uint64_t i = random.below(t_.heap.class_count() + 1);
      const SizeClass to = i == t_.heap.class_count() ? huge_class : static_cast<SizeClass>(i);
      w.epoch.enter();
      const bool spare = random.below(2) == 0;
      const PageId page = spare ? t_.heap.pick_spare(to) : t_.heap.pick_donor(to, Heap::DonorRule::any).page;
      w.epoch.exit();
      if (page == 0 || !t_.heap.close_page(page)) continue;
      bool done = false;
      for (int tries = 0; tries < 20 && !done; ++tries) {
        w.epoch.enter();
        t_.heap.for_each_live(page, [&](Location l) { evict(w, l); });
        w.epoch.exit();
        done = t_.heap.finish_page(page, to);
        if (!done) std::this_thread::yield();
      }
      if (!done) t_.heap.reopen_page(page);
      moves_.fetch_add(done ? 1 : 0);
    }
  }

  void visit() {
    EpochDomain::Participant epoch(t_.epochs);
    while (workers_left_.load() != 0) {
      for (PageId p = 1; p < t_.heap.page_end(); ++p) {
        epoch.enter();
        t_.heap.visit_page(p, [&](Location, Item* item) { check(item); });
        epoch.exit();
      }
      for (std::uint32_t c = 0; c < t_.heap.class_count(); ++c) t_.heap.class_stats(static_cast<SizeClass>(c));
    }
  }

  void run() {
    std::vector<std::thread> threads;
    constexpr unsigned workers = 3;
    workers_left_ = workers;
    for (unsigned id = 0; id < workers; ++id) {
      threads.emplace_back([this, id] {
        work(id);
        workers_left_.fetch_sub(1);
      });
    }
    threads.emplace_back([this] { move_pages(); });
    threads.emplace_back([this] { visit(); });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong_.load(), 0u);
    EXPECT_GT(evicted_.load(), 0u);
    EXPECT_GT(moves_.load(), 0u);

    // Exactly the items that the table names are in use.
    std::uint64_t named = 0;
    for (std::size_t i = 0; i < Table::places; ++i) named += table_[i].location.load() != no_location ? 1u : 0u;
    std::uint64_t used = t_.heap.huge_items();
    TestWorker w(t_);
    for (int k = 0; k < 3; ++k) {
      w.flush();
      while (w.allocate(item_bytes_max_) != no_location) {
      }
    }
    used = 0;
    for (std::uint32_t c = 0; c < t_.heap.class_count(); ++c)
      used += t_.heap.class_stats(static_cast<SizeClass>(c)).slots_used;
    std::uint64_t live = 0;
    w.epoch.enter();
    for (PageId p = 1; p < t_.heap.page_end(); ++p) t_.heap.visit_page(p, [&](Location, Item*) { ++live; });
    w.epoch.exit();
    EXPECT_EQ(live, named);
    EXPECT_GE(used + t_.heap.huge_items(), named);
  }

 private:
  // The item's key names its place; its value repeats one byte.
  void write(TestWorker& w, TestRandom& random, std::size_t place) {
    const std::uint64_t bytes = random.size_between(sizeof(Item) + sizeof place + 8, item_bytes_max_);
    const Location l = w.allocate(bytes);
    if (l == no_location) return make_room(w, bytes);
    const std::uint64_t value_bytes = bytes - sizeof(Item) - sizeof place;
    Item* item = t_.heap.format(l, {reinterpret_cast<const char*>(&place), sizeof place}, 0, value_bytes, 0, 0, false);
    const char mark = static_cast<char>(random.next());
    for (std::uint64_t i = 0; i < 8; ++i) item->value()[i] = mark;
    item->value()[value_bytes - 1] = mark;

    Location old = no_location;
    {
      const std::lock_guard lock(table_[place].writers);
      old = table_[place].location.load(std::memory_order_relaxed);
      if (old != no_location) TestWorker::set_state(t_.heap, old, ItemState::dead);
      TestWorker::set_live(t_.heap, l);
      table_[place].location.store(l, std::memory_order_release);
    }
    if (old != no_location) retire(w, old);
  }

  void read(TestWorker&, std::size_t place) {
    const Location l = table_[place].location.load(std::memory_order_acquire);
    if (l == no_location) return;
    const Item* item = t_.heap.at(l);
    if (Item::state_of(item->state_acquire()) != ItemState::live) return;
    TestWorker::set_accessed(t_.heap, l);
    if (check(item) != place) wrong_.fetch_add(1);
  }

  std::size_t check(const Item* item) {
    std::size_t place = Table::places;
    if (item->key().size() != sizeof place) {
      wrong_.fetch_add(1);
      return place;
    }
    std::memcpy(&place, item->key().data(), sizeof place);
    const char* value = item->value();
    const std::uint64_t value_bytes = t_.heap.value_bytes(item);
    for (std::uint64_t i = 1; i < 8; ++i) {
      if (value[i] != value[0]) wrong_.fetch_add(1);
    }
    if (value[value_bytes - 1] != value[0]) wrong_.fetch_add(1);
    return place;
  }

  void make_room(TestWorker& w, std::uint64_t bytes) {
    std::array<Location, 8> victims{};
    SizeClass c = t_.heap.size_class(bytes);
    std::size_t found = t_.heap.sweep(c, victims, 500, nullptr, nullptr).found;
    if (found == 0) {
      c = huge_class;
      found = t_.heap.sweep(c, {victims.data(), 2}, 10, nullptr, nullptr).found;
    }
    for (std::size_t v = 0; v < found; ++v) evict(w, victims[v]);
    evicted_.fetch_add(found);
  }

  void evict(TestWorker& w, Location l) {
    // The item may have been removed meanwhile, but its bytes are intact: this thread is inside an epoch.
    std::size_t place = 0;
    std::memcpy(&place, t_.heap.at(l)->key().data(), sizeof place);
    {
      const std::lock_guard lock(table_[place].writers);
      if (table_[place].location.load(std::memory_order_relaxed) != l) return;
      TestWorker::set_state(t_.heap, l, ItemState::dead);
      table_[place].location.store(no_location, std::memory_order_release);
    }
    retire(w, l);
  }

  void retire(TestWorker& w, Location l) {
    const Heap::Cache::Lock lock(w.cache);
    t_.heap.retire(w.cache, l);
  }

  TestHeap t_;
  Table table_;
  const std::uint64_t item_bytes_max_;
  std::atomic<unsigned> workers_left_{0};
  std::atomic<std::uint64_t> wrong_{0}, evicted_{0}, moves_{0};
};

TEST(HeapStress, SmallItems) {
  const auto stress = std::make_unique<Stress>(5 * PagePool::page_cost_bytes, 4'000);
  stress->run();
}

TEST(HeapStress, AllSizesWithHugeItems) {
  const auto stress = std::make_unique<Stress>(48 * mib, 3 * mib);
  stress->run();
}

}  // namespace
}  // namespace tandem
