#include "heap/class_pages.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

namespace tandem {
namespace {
void add(std::atomic<std::uint64_t>& n, std::uint64_t by) {
  n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
void subtract(std::atomic<std::uint64_t>& n, std::uint64_t by) {
  n.store(n.load(std::memory_order_relaxed) - by, std::memory_order_relaxed);
}
}  // namespace

void ClassPages::init(const PageTable& table, const SlotShape& shape, SizeClass c) noexcept {
  table_ = table;
  shape_ = shape;
  class_ = c;
}

std::uint32_t ClassPages::take(std::span<Location> out) noexcept {
  const std::lock_guard lock(mutex_);
  std::uint32_t taken = 0;
  while (taken < out.size() && avail_head_ != 0) {
    const PageId page = avail_head_;
    PageInfo& info = table_.info(page);
    std::uint64_t* const bitmap = table_.bitmap(page);
    const std::uint32_t before = taken;
    while (info.summary != 0 && taken < out.size()) {
      const auto group = static_cast<std::uint32_t>(std::countr_zero(info.summary));
      const std::uint32_t words_end = (group + 1) * bitmap_group_words;
      for (std::uint32_t w = group * bitmap_group_words; w < words_end && taken < out.size(); ++w) {
        while (bitmap[w] != 0 && taken < out.size()) {
          const auto bit = static_cast<std::uint32_t>(std::countr_zero(bitmap[w]));
          bitmap[w] &= bitmap[w] - 1;
          out[taken++] = shape_.location(page, w * 64 + bit);
        }
        if (w + 1 == words_end && bitmap[w] == 0) info.summary &= info.summary - 1;
      }
    }
    info.free_count -= taken - before;
    if (info.free_count == 0) avail_remove(page);
  }
  subtract(slots_free_, taken);
  std::reverse(out.begin(), out.begin() + taken);
  return taken;
}

bool ClassPages::take_row(std::span<Location, row_slots> out) noexcept {
  constexpr int pages_passed_max = 64, looks_max = 4;
  const std::lock_guard lock(mutex_);
  const bool may_have = row_page_ != 0 && table_.tag(row_page_) == tag::make(PageState::open, class_);
  if (may_have && take_row_of(row_page_, out)) return true;
  PageId page = avail_tail_;
  for (int passed = 0, looks = 0; page != 0 && passed < pages_passed_max && looks < looks_max; ++passed) {
    const PageInfo& info = table_.info(page);
    if (info.free_count >= row_slots) {
      ++looks;
      if (take_row_of(page, out)) return true;
    }
    page = info.avail_prev;
  }
  return false;
}

bool ClassPages::take_row_of(PageId page, std::span<Location, row_slots> out) noexcept {
  PageInfo& info = table_.info(page);
  std::uint64_t* const bitmap = table_.bitmap(page);
  for (std::uint64_t groups = info.summary; groups != 0; groups &= groups - 1) {
    const auto group = static_cast<std::uint32_t>(std::countr_zero(groups));
    std::uint64_t* const first = bitmap + group * bitmap_group_words;
    std::uint64_t* const end = first + bitmap_group_words;
    std::uint64_t* const row = std::find(first, end, ~std::uint64_t{0});
    if (row == end) continue;
    *row = 0;
    if (std::all_of(first, end, [](std::uint64_t word) { return word == 0; }))
      info.summary &= ~(std::uint64_t{1} << group);
    const auto slot = static_cast<std::uint32_t>(row - bitmap) * row_slots;
    for (std::uint32_t i = 0; i < row_slots; ++i) out[i] = shape_.location(page, slot + i);
    info.free_count -= row_slots;
    if (info.free_count == 0) avail_remove(page);
    subtract(slots_free_, row_slots);
    row_page_ = page;
    return true;
  }
  return false;
}

void ClassPages::put(std::span<const Location> slots) noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t open = 0;
  for (const Location l : slots) open += put_one(l) ? 1u : 0u;
  add(slots_free_, open);
  add(slots_free_closed_, slots.size() - open);
}

bool ClassPages::put_one(Location l) noexcept {
  const PageId page = page_of(l);
  PageInfo& info = table_.info(page);
  const std::uint32_t slot = shape_.slot_at(l % page_granules);
  std::uint64_t& word = table_.bitmap(page)[slot / 64];
  const std::uint64_t bit = std::uint64_t{1} << slot % 64;
  TD_ASSERT((word & bit) == 0);  // double free
  word |= bit;
  info.summary |= std::uint64_t{1} << slot / 64 / bitmap_group_words;
  ++info.free_count;
  if (tag::state_of(table_.tag(page)) != PageState::open) return false;
  if (!info.in_avail) avail_push(page);
  return true;
}

void ClassPages::add_page(PageId page, bool moved) noexcept {
  const std::lock_guard lock(mutex_);
  PageInfo& info = table_.info(page);
  const std::uint32_t slots = shape_.slots_per_page;
  const std::uint32_t groups = (slots + 64 * bitmap_group_words - 1) / (64 * bitmap_group_words);
  std::uint64_t* const bitmap = table_.bitmap(page);
  std::fill_n(bitmap, groups * bitmap_group_words, 0);
  std::fill_n(bitmap, slots / 64, ~std::uint64_t{0});
  if (slots % 64 != 0) bitmap[slots / 64] = (std::uint64_t{1} << slots % 64) - 1;
  info.summary = groups == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << groups) - 1;
  info.free_count = slots;
  info.in_avail = false;
  table_.set_tag(page, PageState::open, class_);
  ring_insert(page);
  avail_push(page);
  row_page_ = page;
  add(pages_, 1);
  add(slots_free_, slots);
  if (moved) ++moved_in_;
}

void ClassPages::recover_page(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  PageInfo& info = table_.info(page);
  table_.set_tag(page, PageState::open, class_);
  info.in_avail = false;
  ring_insert(page);
  if (info.free_count != 0) avail_push(page);
  add(pages_, 1);
  add(slots_free_, info.free_count);
}

bool ClassPages::close(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  if (table_.tag(page) != tag::make(PageState::open, class_)) return false;
  if (table_.info(page).in_avail) avail_remove(page);
  ring_remove(page);
  table_.set_tag(page, PageState::closed, class_);
  add(pages_closed_, 1);
  subtract(slots_free_, table_.info(page).free_count);
  add(slots_free_closed_, table_.info(page).free_count);
  return true;
}

void ClassPages::reopen(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  const PageState state = tag::state_of(table_.tag(page));
  TD_ASSERT(state == PageState::closed || state == PageState::emptied);
  table_.set_tag(page, PageState::open, class_);
  subtract(pages_closed_, 1);
  subtract(slots_free_closed_, table_.info(page).free_count);
  add(slots_free_, table_.info(page).free_count);
  ring_insert(page);
  if (table_.info(page).free_count != 0) avail_push(page);
}

bool ClassPages::is_empty(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  return table_.info(page).free_count == shape_.slots_per_page;
}

void ClassPages::leave(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  PageInfo& info = table_.info(page);
  TD_ASSERT(info.free_count == shape_.slots_per_page && !info.in_avail);
  table_.set_tag(page, PageState::free, 0);
  subtract(pages_, 1);
  subtract(pages_closed_, 1);
  subtract(slots_free_closed_, shape_.slots_per_page);
  ++moved_out_;
}

// Items of the page that were used since CLOCK last looked, and slots that are being filled. Only of large slots: of a
// page with many small ones about the same share is in use everywhere.
std::uint32_t ClassPages::count_used(PageId page) const noexcept {
  if (!has_large_slots()) return 0;
  std::uint32_t used = 0;
  for (std::uint32_t slot = 0; slot < shape_.slots_per_page; ++slot) {
    const std::uint64_t state = table_.item(shape_.location(page, slot))->state_word.load(std::memory_order_relaxed);
    const bool filling = Item::state_of(state) == ItemState::filling;
    used += filling || (Item::state_of(state) == ItemState::live && word::Accessed::get(state) != 0) ? 1u : 0u;
  }
  return used;
}

// 0: the slot holds no live item.
std::uint64_t ClassPages::cas_of_live(Location l) const noexcept {
  const Item* const item = table_.item(l);
  const std::uint64_t state = item->state_acquire();
  return Item::state_of(state) == ItemState::live ? item->cas(state) : 0;
}

// Such that so many quarters of the page's items have a lower one; 0: no live item found. By one live item in each of
// 16 parts of the page, as far as a few looks find one: free slots are passed over without reading them, slots in
// caches are not. A hint: an item may be rewritten meanwhile.
std::uint64_t ClassPages::cas_of(PageId page, std::uint32_t quarters) const noexcept {
  constexpr std::uint32_t parts = 16, looks_max = 64;
  if (class_ == huge_class) return cas_of_live(huge_location(page));
  std::array<std::uint64_t, parts> found;
  std::uint32_t count = 0;
  const std::uint64_t* const bitmap = table_.bitmap(page);
  const std::uint32_t step = (shape_.slots_per_page + parts - 1) / parts;
  for (std::uint32_t first = 0; first < shape_.slots_per_page; first += step) {
    const std::uint32_t end = std::min(first + step, shape_.slots_per_page);
    std::uint64_t cas = 0;
    for (std::uint32_t slot = first, looks = 0; slot < end && looks < looks_max && cas == 0; ++slot) {
      if ((bitmap[slot / 64] >> slot % 64 & 1) != 0) continue;
      cas = cas_of_live(shape_.location(page, slot));
      ++looks;
    }
    if (cas != 0) found[count++] = cas;
  }
  if (count == 0) return 0;
  const auto one = found.begin() + count * quarters / 4;
  std::nth_element(found.begin(), one, found.begin() + count);
  return *one;
}

PageId ClassPages::pick_donor(std::uint64_t keep, Donor by) noexcept {
  constexpr std::uint64_t looks_max = 64, looks_at_small = 8;
  const std::lock_guard lock(mutex_);
  if (hand_page_ == 0 || pages_open() <= keep) return 0;
  // Starts where the last call stopped, so that a page that could not be closed is not picked again at once. Otherwise
  // starts at the page that the hand reaches next: its items were examined least recently.
  const PageId first = donor_cursor_ != 0 ? donor_cursor_ : hand_page_;
  const bool by_age = by == Donor::oldest;
  // Of small slots the newest are in the other half of the ring.
  const std::uint64_t enough =
      !by_age || has_large_slots() ? looks_max : std::min(looks_at_small, pages_open() / 2 + 1);
  const auto cost = [&](PageId page) noexcept {
    const std::uint32_t free = table_.info(page).free_count;
    // By what most of the page is: items that took the place of its oldest ones find room, half a page of them costs.
    return by_age ? std::tuple(count_used(page), cas_of(page, 3), ~free) : std::tuple(0u, std::uint64_t{0}, ~free);
  };
  PageId page = first, best = 0;
  std::tuple<std::uint32_t, std::uint64_t, std::uint32_t> cost_of_best;
  for (std::uint64_t i = 0; i < looks_max && (i < enough || best == 0); ++i) {
    const PageInfo& info = table_.info(page);
    // Slots that output points to are not reusable before that is sent.
    if (info.pins.load(std::memory_order_relaxed) == 0) {
      const auto cost_here = cost(page);
      if (best == 0 || cost_here < cost_of_best) {
        best = page;
        cost_of_best = cost_here;
      }
    }
    page = info.ring_next;
    if (page == first) break;
  }
  donor_cursor_ = best != 0 ? table_.info(best).ring_next : page;
  return best;
}

std::uint64_t ClassPages::next_cas() noexcept {
  const std::lock_guard lock(mutex_);
  return hand_page_ == 0 ? 0 : cas_of(donor_cursor_ != 0 ? donor_cursor_ : hand_page_, 2);
}

std::uint64_t ClassPages::cas_ahead() noexcept {
  const std::lock_guard lock(mutex_);
  return hand_page_ == 0 ? 0 : cas_of(table_.info(hand_page_).ring_next, 2);
}

std::uint64_t ClassPages::cas_to_keep_above(PageId page) noexcept {
  constexpr std::uint64_t few = 3;  // of so many pages a page's worth may be what was stored last, too
  const std::uint64_t ahead = cas_ahead();
  if (ahead == 0) return UINT64_MAX;
  if (pages_open() > few) return ahead;
  const std::lock_guard lock(mutex_);  // of the page's bitmap
  return std::max(ahead, cas_of(page, 2));
}

void ClassPages::link(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  table_.info(page).free_count = 0;
  ring_insert(page);
  add(pages_, 1);
}

void ClassPages::unlink(PageId page) noexcept {
  const std::lock_guard lock(mutex_);
  ring_remove(page);
  subtract(pages_, 1);
}

ClassPages::Range ClassPages::claim(std::uint32_t slots_max) noexcept {
  constexpr int pages_passed_max = 64;
  const std::lock_guard lock(mutex_);
  if (hand_page_ == 0) return {};
  for (int i = 0;
       i < pages_passed_max && hand_slot_ == 0 && table_.info(hand_page_).free_count == shape_.slots_per_page; ++i) {
    hand_page_ = table_.info(hand_page_).ring_next;
  }
  const Range range{hand_page_, hand_slot_, std::min(slots_max, shape_.slots_per_page - hand_slot_)};
  hand_slot_ += range.count;
  if (hand_slot_ == shape_.slots_per_page) {
    hand_slot_ = 0;
    hand_page_ = table_.info(hand_page_).ring_next;
    donor_cursor_ = 0;  // else the hand overtakes it, and it names the newest items
  }
  return range;
}

void ClassPages::unclaim(const Range& range, std::uint32_t from) noexcept {
  const std::lock_guard lock(mutex_);
  if (hand_page_ == 0 || table_.tag(range.page) != tag::make(PageState::open, class_)) return;
  const std::uint32_t end = range.first + range.count;
  const bool unmoved = end == shape_.slots_per_page ? hand_slot_ == 0 && hand_page_ == table_.info(range.page).ring_next
                                                    : hand_slot_ == end && hand_page_ == range.page;
  if (!unmoved) return;
  hand_page_ = range.page;
  hand_slot_ = from;
}

ClassPages::Totals ClassPages::totals() noexcept {
  const std::lock_guard lock(mutex_);
  return {pages(), slots_free() + slots_free_closed_.load(std::memory_order_relaxed), moved_in_, moved_out_};
}

void ClassPages::avail_push(PageId p) noexcept {
  PageInfo& info = table_.info(p);
  info.in_avail = true;
  info.avail_next = 0;
  info.avail_prev = avail_tail_;
  (avail_tail_ != 0 ? table_.info(avail_tail_).avail_next : avail_head_) = p;
  avail_tail_ = p;
}

void ClassPages::avail_remove(PageId p) noexcept {
  PageInfo& info = table_.info(p);
  info.in_avail = false;
  (info.avail_prev != 0 ? table_.info(info.avail_prev).avail_next : avail_head_) = info.avail_next;
  (info.avail_next != 0 ? table_.info(info.avail_next).avail_prev : avail_tail_) = info.avail_prev;
}

// Behind the hand: new pages are examined last.
void ClassPages::ring_insert(PageId p) noexcept {
  PageInfo& info = table_.info(p);
  if (hand_page_ == 0) {
    info.ring_next = info.ring_prev = p;
    hand_page_ = p;
    hand_slot_ = 0;
    return;
  }
  PageInfo& hand = table_.info(hand_page_);
  info.ring_next = hand_page_;
  info.ring_prev = hand.ring_prev;
  table_.info(hand.ring_prev).ring_next = p;
  hand.ring_prev = p;
}

void ClassPages::ring_remove(PageId p) noexcept {
  const PageInfo& info = table_.info(p);
  const PageId next = info.ring_next == p ? 0 : info.ring_next;
  table_.info(info.ring_prev).ring_next = info.ring_next;
  table_.info(info.ring_next).ring_prev = info.ring_prev;
  if (hand_page_ == p) {
    hand_page_ = next;
    hand_slot_ = 0;
  }
  if (donor_cursor_ == p) donor_cursor_ = next;
}

}  // namespace tandem
