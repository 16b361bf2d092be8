#include "heap/recovery.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tandem {

HeapRecovery::HeapRecovery(Heap& heap, const Rules& rules)
    : heap_(heap),
      table_(heap.table_),
      rules_(rules),
      page_end_(std::min(heap.pool_.file_page_end(), table_.page_limit)),
      pages_(page_end_) {
  if (!heap.pool_.prepare_recovery()) throw std::bad_alloc();
  for (const RedoRecord& record : heap.pool_.file_redo()) {
    if (record.location.load(std::memory_order_relaxed) != 0) redo_.push_back(&record);
  }
  std::sort(redo_.begin(), redo_.end(), [](const RedoRecord* a, const RedoRecord* b) {
    const std::uint64_t at_a = a->location.load(std::memory_order_relaxed);
    const std::uint64_t at_b = b->location.load(std::memory_order_relaxed);
    return at_a != at_b ? at_a < at_b : Item::cas_of(a->state, a->fixed) > Item::cas_of(b->state, b->fixed);
  });
}

void HeapRecovery::scan(PageId page) noexcept {
  const std::uint16_t t = table_.tag(page);
  const SizeClass c = tag::class_of(t);
  switch (tag::state_of(t)) {
    case PageState::free:
    case PageState::emptied:    // was leaving its class
    case PageState::huge_body:  // of a live item: checked with the first page
      return;
    case PageState::open:
    case PageState::closed:
      if (c < heap_.class_count()) return scan_slots(page, c);
      break;
    case PageState::huge_head:
      if (c == huge_class) return scan_huge(page);
      break;
  }
  damaged_.fetch_add(1, std::memory_order_relaxed);
}

// Pages without blocks read as zeros if blocks can be allocated; otherwise reading them would end the process.
bool HeapRecovery::make_resident(PageId first, std::uint32_t pages) const noexcept {
  if (!heap_.pool_.file_allocate(first, first + pages)) return false;
#if defined(MADV_POPULATE_READ)
  // One call instead of a fault for every 4 KiB; a hint, which older kernels do not know.
  madvise(table_.page(first), pages * page_bytes, MADV_POPULATE_READ);
#endif
  return true;
}

std::uint16_t HeapRecovery::age_of(std::uint64_t state) const noexcept {
  return static_cast<std::uint16_t>((rules_.now_s - word::AccessS::get(state)) & word::AccessS::limit);
}

std::uint64_t HeapRecovery::finish_rewriting(Item* item, Location l, std::uint64_t bytes_max) noexcept {
  std::uint64_t state =
      word::State::put(item->state_word.load(std::memory_order_relaxed), static_cast<std::uint64_t>(ItemState::live));
  const auto record = std::lower_bound(redo_.begin(), redo_.end(), l, [](const RedoRecord* r, Location at) {
    return r->location.load(std::memory_order_relaxed) < at;
  });
  if (record != redo_.end() && (*record)->location.load(std::memory_order_relaxed) == l) {
    const RedoRecord& redo = **record;
    const std::uint64_t value_bytes = word::ValueBytes::get(redo.fixed);
    if (((redo.fixed ^ item->fixed()) & ~word::CasLow::mask) != 0 || item->is_huge() ||
        Item::state_of(redo.state) != ItemState::live || value_bytes > rewritten_value_bytes_max ||
        item->value_offset() + value_bytes > bytes_max) {
      item->state_word.store(0, std::memory_order_relaxed);
      return 0;
    }
    // A record with a smaller id is of a version before the present one, which is complete.
    if (Item::cas_of(redo.state, redo.fixed) >= item->cas(state)) {
      std::memcpy(item->value(), redo.value, value_bytes);
      item->set_fixed(redo.fixed);
      state = redo.state;
    }
  }
  item->state_word.store(state, std::memory_order_release);
  return state;
}

bool HeapRecovery::is_wanted(const Item* item, std::uint64_t state, std::uint64_t total_bytes,
                             std::uint64_t bytes_max) noexcept {
  const std::uint64_t cas = item->cas(state);
  const std::uint32_t key_bytes = item->key_bytes();
  if (key_bytes == 0 || key_bytes > key_bytes_max || total_bytes > bytes_max || cas == 0 || cas >= rules_.cas_end) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const std::uint32_t expiry_s = Item::expiry_of(state);
  if ((expiry_s != 0 && expiry_s <= rules_.now_s) || cas < rules_.flush_cas) {
    expired_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void HeapRecovery::scan_slots(PageId page, SizeClass c) noexcept {
  const SlotShape& shape = heap_.classes_[c];
  if (!make_resident(page, 1)) {
    no_room_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  PageInfo& info = table_.info(page);
  std::uint64_t* const bitmap = table_.bitmap(page);
  std::uint64_t summary = 0;
  std::uint64_t ages_s = 0;
  std::uint32_t items = 0;
  constexpr std::uint32_t ahead_slots = 16;
  constexpr std::uint32_t group_slots = 64 * bitmap_group_words;
  // Whole groups: no reader goes beyond them.
  const std::uint32_t words = (shape.slots_per_page + group_slots - 1) / group_slots * bitmap_group_words;
  for (std::uint32_t w = 0; w < words; ++w) {
    std::uint64_t free = 0;
    const std::uint32_t end = std::min(w * 64 + 64, shape.slots_per_page);
    for (std::uint32_t slot = w * 64; slot < end; ++slot) {
      if (slot + ahead_slots < shape.slots_per_page)
        prefetch_read(table_.item(shape.location(page, slot + ahead_slots)));
      Item* const item = table_.item(shape.location(page, slot));
      std::uint64_t state = item->state_word.load(std::memory_order_relaxed);
      if (TD_UNLIKELY(is_rewriting(state))) {
        state = finish_rewriting(item, shape.location(page, slot), shape.slot_bytes);
        if (state == 0) damaged_.fetch_add(1, std::memory_order_relaxed);
      }
      const bool live = Item::state_of(state) == ItemState::live;
      if (live && !item->is_huge() &&
          is_wanted(item, state, item->value_offset() + item->small_value_bytes(), shape.slot_bytes)) {
        ++items;
        ages_s += age_of(state);
        continue;
      }
      if (live && item->is_huge()) damaged_.fetch_add(1, std::memory_order_relaxed);
      free |= std::uint64_t{1} << slot % 64;
      if (live || Item::state_of(state) == ItemState::filling) item->state_word.store(0, std::memory_order_relaxed);
      heap_.poison_slot(shape.location(page, slot), shape.slot_bytes);
    }
    bitmap[w] = free;
    if (free != 0) summary |= std::uint64_t{1} << w / bitmap_group_words;
  }
  if (items == 0) unpoison_memory(table_.page(page), page_bytes);
  info.summary = summary;
  info.free_count = shape.slots_per_page - items;
  pages_[page] = {.kind = items != 0 ? Kind::slots : Kind::free,
                  .size_class = c,
                  .age_s = static_cast<std::uint16_t>(items != 0 ? ages_s / items : 0),
                  .items = items};
  items_found_.fetch_add(items, std::memory_order_relaxed);
  bytes_found_.fetch_add(items != 0 ? page_bytes : 0, std::memory_order_relaxed);
}

void HeapRecovery::scan_huge(PageId page) noexcept {
  Item* const item = table_.item(huge_location(page));
  if (!make_resident(page, 1)) {
    no_room_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::uint64_t state = item->state_word.load(std::memory_order_relaxed);
  // It was about to be replaced or removed; a huge item's value is never rewritten.
  if (is_rewriting(state)) {
    state = word::State::put(state, static_cast<std::uint64_t>(ItemState::live));
    item->state_word.store(state, std::memory_order_relaxed);
  }
  if (Item::state_of(state) != ItemState::live) return;
  const std::uint64_t value_bytes = table_.saved_huge_value_bytes[page];
  const std::uint64_t total_bytes = item->value_offset() + value_bytes;
  // Pages beyond the item's last byte are freed: they were the rest of a slot for a larger item.
  std::uint64_t pages = run_pages_of(total_bytes);
  bool whole = item->is_huge() && value_bytes <= item_bytes_limit && pages <= page_end_ - page;
  for (PageId p = page + 1; whole && p < page + pages; ++p) {
    whole = table_.tag(p) == tag::make(PageState::huge_body, huge_class);
  }
  if (!whole) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!is_wanted(item, state, total_bytes, pages * page_bytes)) return;
  if (pages > 1 && !make_resident(page + 1, static_cast<std::uint32_t>(pages - 1))) {
    no_room_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  PageInfo& info = table_.info(page);
  info.run_pages = static_cast<std::uint32_t>(pages);
  info.huge_value_bytes = value_bytes;
  pages_[page] = {.kind = Kind::huge,
                  .size_class = huge_class,
                  .age_s = age_of(state),
                  .pages = static_cast<std::uint32_t>(pages),
                  .items = 1};
  items_found_.fetch_add(1, std::memory_order_relaxed);
  bytes_found_.fetch_add(pages * page_bytes, std::memory_order_relaxed);
}

void HeapRecovery::choose() {
  std::vector<PageId> used;
  for (PageId p = 1; p < page_end_; ++p) {
    if (pages_[p].kind != Kind::free) used.push_back(p);
  }
  std::sort(used.begin(), used.end(), [&](PageId a, PageId b) {
    return pages_[a].age_s != pages_[b].age_s ? pages_[a].age_s < pages_[b].age_s : a < b;
  });
  for (const PageId p : used) {
    if (heap_.pool_.recover_run(p, pages_[p].pages)) continue;
    no_room_.fetch_add(pages_[p].items, std::memory_order_relaxed);
    unpoison_memory(table_.page(p), pages_[p].pages * page_bytes);
    pages_[p].kind = Kind::free;
  }
}

void HeapRecovery::drop(Location l) {
  Item* const item = table_.item(l);
  item->state_word.fetch_or(word::State::put(0, static_cast<std::uint64_t>(ItemState::dead)),
                            std::memory_order_release);
  const std::lock_guard lock(mutex_);
  gone_.push_back(l);
}

void HeapRecovery::finish() {
  for (RedoRecord& record : heap_.pool_.file_redo()) record.clear();
  heap_.pool_.finish_recovery();
  for (PageId p = 1; p < page_end_; ++p) {
    const Page& page = pages_[p];
    if (page.kind == Kind::slots) {
      heap_.pages_[page.size_class].recover_page(p);
    } else if (page.kind == Kind::huge) {
      heap_.pages_[heap_.index_of(huge_class)].link(p);
      heap_.huge_items_.fetch_add(1, std::memory_order_relaxed);
      heap_.huge_bytes_.fetch_add(heap_.pool_.run_bytes(p, page.pages), std::memory_order_relaxed);
    }
  }
  for (const Location l : gone_) {
    const SizeClass c = heap_.class_of(l);
    if (c == huge_class) {
      heap_.pages_[heap_.index_of(huge_class)].unlink(page_of(l));
      heap_.free_huge(l);
    } else {
      heap_.poison_slot(l, heap_.slot_bytes(c));
      heap_.pages_[c].put({&l, 1});
    }
  }
  gone_.clear();
}

HeapRecovery::Dropped HeapRecovery::dropped() const noexcept {
  return {.expired = expired_.load(std::memory_order_relaxed),
          .damaged = damaged_.load(std::memory_order_relaxed),
          .no_room = no_room_.load(std::memory_order_relaxed)};
}

}  // namespace tandem
