// Random operations of several workers, in one thread, against a plain map of the owners of byte ranges: ranges never
// overlap, no owner's bytes change, no slot is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "heap/heap_fixture.hpp"

namespace tandem {
namespace {

constexpr int steps = is_sanitized ? 20'000 : 100'000;

struct Owned {
  std::uint64_t bytes = 0, seed = 0;
  bool live = false;
};

struct Reader {
  std::unique_ptr<TestWorker> worker;
  // What the reader saw when it entered its epoch; must not change until it leaves.
  std::vector<std::pair<Location, Owned>> seen;
};

class HeapModel {
 public:
  HeapModel(std::uint64_t budget_bytes, std::uint64_t item_bytes_max, bool huge_pages, std::uint64_t seed)
      : t_(budget_bytes, {.item_bytes_max = item_bytes_max, .huge_pages = huge_pages}),
        random_(seed),
        item_bytes_max_(item_bytes_max) {
    for (Reader& r : readers_) r.worker = std::make_unique<TestWorker>(t_);
  }

  void step() {
    Reader& r = readers_[random_.below(readers_.size())];
    switch (random_.below(24)) {
      default:
        return allocate(r);
      case 10:
      case 11:
      case 12:
      case 13:
        return free_one(r);
      case 14:
        return enter(r);
      case 15:
      case 16:
        return leave(r);
      case 17:
        r.worker->reclaim();
        return;
      case 18:
        return pin_or_unpin();
      case 19:
        return sweep(r);
      case 20:
        return begin_move();
      case 21:
        return continue_move(r);
      case 22:
        if (random_.below(20) == 0) restart(r);
        return;
      case 23:
        if (random_.below(50) == 0) check_everything();
        return;
    }
  }

  // All slots come back.
  void finish() {
    for (const Location l : pinned_) t_.heap.unpin(l);
    pinned_.clear();
    for (Reader& r : readers_) leave(r);
    if (moving_ != 0) t_.heap.reopen_page(moving_);
    moving_ = 0;
    check_everything();
    while (!owned_.empty()) free_one(readers_[0]);
    for (Reader& r : readers_) r.worker->flush();
    for (Reader& r : readers_) r.worker = std::make_unique<TestWorker>(t_);  // old lists may hold slots
    // All pages come back, too: every class gives up all it has.
    for (PageId p = 1; p < t_.heap.page_end(); ++p) {
      EXPECT_TRUE(!t_.heap.close_page(p) || t_.heap.finish_page(p, huge_class)) << p;
    }
    t_.heap.reclaim_caches();  // huge items of workers that are gone
    EXPECT_EQ(t_.budget.used_bytes(), 0u);
    EXPECT_EQ(t_.heap.huge_items(), 0u);
    EXPECT_EQ(t_.heap.retired_bytes(), 0u);
  }

  std::uint64_t moves_done() const { return moves_done_; }
  std::uint64_t allocated() const { return allocated_; }
  std::uint64_t refused() const { return refused_; }

 private:
  void allocate(Reader& r) {
    Owned o{random_.size_between(sizeof(Item) + 1, item_bytes_max_), random_.next(), false};
    const Location l = r.worker->allocate(o.bytes);
    ASSERT_LE(t_.budget.used_bytes(), t_.budget.limit_bytes());
    if (l == no_location) {
      ++refused_;
      return free_one(r);
    }
    ++allocated_;
    ASSERT_NE(page_of(l), moving_);
    // No overlap with another owner, nor with a slot that waits for its epoch.
    forget_safe();
    for (const auto* map : {&owned_, &retired_}) {
      const auto after = map->lower_bound(l);
      ASSERT_TRUE(after == map->end() || after->first >= l + granules(o.bytes));
      ASSERT_TRUE(after == map->begin() || std::prev(after)->first + granules(std::prev(after)->second.bytes) <= l);
    }
    if (random_.below(8) == 0) return r.worker->release(l);
    if (random_.below(8) != 0) {
      r.worker->fill(l, o.bytes, o.seed);
      o.live = true;
    }
    owned_.emplace(l, o);
  }

  void free_one(Reader& r) {
    if (owned_.empty()) return;
    auto it = owned_.lower_bound(static_cast<Location>(random_.below(owned_.rbegin()->first + 1)));
    const auto [l, o] = *it;
    owned_.erase(it);
    if (!o.live) return r.worker->release(l);
    ASSERT_TRUE(r.worker->is_intact(l, o.bytes, o.seed)) << l;
    forget_safe();
    retired_[l] = o;
    stamps_[l] = t_.epochs.retire_stamp();
    r.worker->retire(l);
  }

  // The map of retired slots keeps only those that some reader may still see; the rest may have been reused.
  void forget_safe() {
    const std::uint64_t safe = t_.epochs.safe_stamp();
    std::erase_if(stamps_, [&](const auto& entry) {
      if (entry.second >= safe || is_pinned(entry.first)) return false;
      retired_.erase(entry.first);
      return true;
    });
  }
  bool is_pinned(Location l) const {
    return std::any_of(pinned_.begin(), pinned_.end(), [&](Location p) { return page_of(p) == page_of(l); });
  }

  void enter(Reader& r) {
    if (r.worker->epoch.active()) return;
    r.worker->epoch.enter();
    for (const auto& [l, o] : owned_) {
      if (o.live && random_.below(owned_.size()) < 20) r.seen.emplace_back(l, o);
    }
  }
  void leave(Reader& r) {
    if (!r.worker->epoch.active()) return;
    for (const auto& [l, o] : r.seen) ASSERT_TRUE(r.worker->is_intact(l, o.bytes, o.seed)) << l;
    r.seen.clear();
    r.worker->epoch.exit();
    forget_safe();
  }

  void pin_or_unpin() {
    forget_safe();  // a pin does not hold back what was safe before it
    if (!pinned_.empty() && random_.below(2) == 0) {
      t_.heap.unpin(pinned_.back());
      pinned_.pop_back();
      forget_safe();
    } else if (!owned_.empty() && pinned_.size() < 3) {
      const auto it = owned_.lower_bound(static_cast<Location>(random_.below(owned_.rbegin()->first + 1)));
      t_.heap.pin(it->first);
      pinned_.push_back(it->first);
    }
  }

  void sweep(Reader& r) {
    if (r.worker->epoch.active()) return;
    std::array<Location, 16> victims{};
    const auto classes = t_.heap.class_count();
    const std::uint64_t i = random_.below(classes + 1);
    const SizeClass c = i == classes ? huge_class : static_cast<SizeClass>(i);
    r.worker->epoch.enter();
    const std::size_t found = t_.heap.sweep(c, victims, 200, nullptr, nullptr).found;
    r.worker->epoch.exit();
    for (std::size_t v = 0; v < found; ++v) {
      const auto it = owned_.find(victims[v]);
      ASSERT_NE(it, owned_.end());
      ASSERT_TRUE(it->second.live);
      ASSERT_EQ(t_.heap.class_of(victims[v]), c);
    }
  }

  void begin_move() {
    if (moving_ != 0) return;
    move_to_ = random_.below(4) == 0 ? huge_class : static_cast<SizeClass>(random_.below(t_.heap.class_count()));
    const PageId page = t_.heap.pick_donor(move_to_, Heap::DonorRule::any).page;
    if (page == 0) return;
    bool filling = false;
    for (const auto& [l, o] : owned_) filling = filling || (page_of(l) == page && !o.live);
    ASSERT_EQ(t_.heap.close_page(page), !filling);
    if (!filling) moving_ = page;
  }
  void continue_move(Reader& r) {
    if (moving_ == 0) return;
    if (random_.below(10) == 0) {
      t_.heap.reopen_page(moving_);
      moving_ = 0;
      return;
    }
    std::vector<Location> live;
    t_.heap.for_each_live(moving_, [&](Location l) { live.push_back(l); });
    for (const Location l : live) {
      const auto it = owned_.find(l);
      ASSERT_NE(it, owned_.end());
      ASSERT_TRUE(r.worker->is_intact(l, it->second.bytes, it->second.seed));
      retired_[l] = it->second;
      stamps_[l] = t_.epochs.retire_stamp();
      owned_.erase(it);
      r.worker->retire(l);
    }
    if (!t_.heap.finish_page(moving_, move_to_)) return;
    // No reader can have seen any of it.
    forget_safe();
    for (const auto& [l, o] : retired_) ASSERT_NE(page_of(l), moving_);
    moving_ = 0;
    ++moves_done_;
  }

  void restart(Reader& r) {
    leave(r);
    r.worker.reset();
    r.worker = std::make_unique<TestWorker>(t_);
  }

  void check_everything() {
    std::map<SizeClass, std::uint64_t> used;
    for (const auto& [l, o] : owned_) {
      ++used[t_.heap.class_of(l)];
      ASSERT_TRUE(!o.live || readers_[0].worker->is_intact(l, o.bytes, o.seed)) << l;
    }
    for (std::uint32_t i = 0; i < t_.heap.class_count(); ++i) {
      const auto c = static_cast<SizeClass>(i);
      const ClassStats s = t_.heap.class_stats(c);
      ASSERT_EQ(s.slots_used, used[c]) << s.slot_bytes;
      ASSERT_LE(s.slots_used + s.slots_free, s.slots_total);
    }
  }

  static Location granules(std::uint64_t bytes) {
    return static_cast<Location>((bytes + granule_bytes - 1) / granule_bytes);
  }

  TestHeap t_;
  TestRandom random_;
  std::uint64_t item_bytes_max_;
  std::array<Reader, 4> readers_;
  std::map<Location, Owned> owned_;
  std::map<Location, Owned> retired_;
  std::map<Location, std::uint64_t> stamps_;
  std::vector<Location> pinned_;
  PageId moving_ = 0;
  SizeClass move_to_ = 0;
  std::uint64_t moves_done_ = 0, allocated_ = 0, refused_ = 0;
};

void run(int step_count, std::uint64_t budget_bytes, std::uint64_t item_bytes_max, bool huge_pages,
         std::uint64_t seed) {
  HeapModel model(budget_bytes, item_bytes_max, huge_pages, seed);
  for (int i = 0; i < step_count; ++i) {
    model.step();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
  }
  model.finish();
  EXPECT_GT(model.moves_done(), 2u);
  EXPECT_GT(model.allocated(), static_cast<std::uint64_t>(step_count / 20));
  EXPECT_GT(model.refused(), 10u);
}

struct HeapModelTest : testing::TestWithParam<std::uint64_t> {};

TEST_P(HeapModelTest, SmallItemsInFewPages) { run(steps, 6 * PagePool::page_cost_bytes, 3'000, false, GetParam()); }
TEST_P(HeapModelTest, AllSizesInFewPages) { run(steps, 24 * PagePool::page_cost_bytes, mib, false, GetParam()); }
TEST_P(HeapModelTest, HugeItemsInFrames) { run(steps / 10, 64 * mib, 20 * mib, true, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Seeds, HeapModelTest, testing::Range<std::uint64_t>(1, 5));

}  // namespace
}  // namespace tandem
