// `stats items` and `slabs`: the heap's own numbers.
#include <fmt/format.h>

#include <algorithm>

#include "operate/control.hpp"
#include "operate/stat_line.hpp"

namespace tandem::net {
namespace {
// `stats items` samples so many pages, spread over the heap.
constexpr std::uint32_t pages_surveyed_max = 64;
// After a survey that took t, its result is reused for so many t. So repeated requests cost a worker at most a fiftieth
// of its time.
constexpr int survey_rest = 50;
}  // namespace

// Calls f(location, item) for the live items of at most pages_max pages. REQUIRES: survey_mutex_ is held.
template <class F>
void Control::visit_pages(std::uint32_t pages_max, F f) {
  const Heap& heap = state_.engine.shared().heap;
  const PageId end = heap.page_end();
  const std::uint32_t step = std::max<std::uint32_t>(1, end / pages_max);
  for (PageId page = 1; page < end; page += step) {
    survey_context_->epoch.enter();
    heap.visit_page(page, f);
    survey_context_->epoch.exit();
  }
}

const std::vector<Control::ClassSurvey>& Control::survey() {
  const auto begin = std::chrono::steady_clock::now();
  if (begin < survey_holds_until_) return survey_;
  const Heap& heap = state_.engine.shared().heap;
  const std::uint32_t now_s = state_.engine.shared().clock.now_s();
  survey_.assign(heap.class_count(), {});
  visit_pages(pages_surveyed_max, [&](Location l, const Item* item) {
    const SizeClass c = heap.class_of(l);
    if (c >= survey_.size()) return;  // huge
    ClassSurvey& s = survey_[c];
    ++s.items;
    s.item_bytes += heap.total_bytes(item);
    // The header has 15 bits of the second.
    const auto accessed_s = static_cast<std::uint32_t>(word::AccessS::get(item->state_acquire()));
    s.oldest_s = std::max(s.oldest_s, (now_s - accessed_s) & static_cast<std::uint32_t>(word::AccessS::limit));
  });
  const auto end = std::chrono::steady_clock::now();
  survey_holds_until_ = end + survey_rest * (end - begin);
  return survey_;
}

// Classes are numbered from 1, as memcached's; huge items, which have page runs of their own, come after the last.
void Control::items(StatSink& sink) {
  const EngineStats engine = state_.engine.stats();
  const CrawlerStats crawler = state_.engine.crawler().stats();
  const std::lock_guard lock(survey_mutex_);
  const std::vector<ClassSurvey>& surveyed = survey();
  std::size_t id = 0;
  for (const ClassStats& c : engine.classes) {
    const ClassSurvey& found = surveyed[id++];
    if (c.slots_used == 0 && c.evictions == 0 && c.out_of_memory == 0) continue;
    const auto stat = [&](std::string_view name, std::uint64_t value) {
      put(sink, fmt::format("items:{}:{}", id, name), value);
    };
    stat("number", c.slots_used);
    stat("age", found.oldest_s);
    stat("mem_requested", found.items == 0 ? 0 : found.item_bytes * c.slots_used / found.items);
    stat("evicted", c.evictions);
    stat("outofmemory", c.out_of_memory);
    stat("reclaimed", c.reclaimed_expired);
    stat("crawler_reclaimed", crawler.reclaimed[id - 1]);
    stat("crawler_items_checked", crawler.checked[id - 1]);
  }
  if (engine.huge_items != 0) put(sink, fmt::format("items:{}:number", id + 1), engine.huge_items);
}

void Control::slabs(StatSink& sink) const {
  const EngineStats engine = state_.engine.stats();
  std::size_t id = 0, active = 0;
  for (const ClassStats& c : engine.classes) {
    ++id;
    if (c.pages == 0) continue;
    ++active;
    const auto stat = [&](std::string_view name, std::uint64_t value) {
      put(sink, fmt::format("{}:{}", id, name), value);
    };
    stat("chunk_size", c.slot_bytes);
    stat("chunks_per_page", c.slots_per_page);
    stat("total_pages", c.pages);
    stat("total_chunks", c.slots_total);
    stat("used_chunks", c.slots_used);
    stat("free_chunks", c.slots_total - c.slots_used);  // those that workers hold ready included
    stat("free_chunks_end", 0);
    const ClassTotals& commands = engine.class_commands[id - 1];
#define TD_X(name) stat(#name, commands.name);
    TD_CLASS_COUNTERS(TD_X)
#undef TD_X
  }
  put(sink, "active_slabs", active);
  put(sink, "total_malloced", engine.memory_used_bytes - engine.index_bytes);
}

}  // namespace tandem::net
