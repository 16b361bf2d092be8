#include "operate/admin.hpp"

#include "codec/reply.hpp"
#include "net/log.hpp"

namespace tandem::net {

std::string_view Admin::reassign(int from, int to) {
  namespace line = codec::line;
  switch (state_.engine.reassign(from, to)) {
    case Engine::Reassign::ok:
      return line::ok;
    case Engine::Reassign::busy:
      return line::reassign_busy;
    case Engine::Reassign::bad_class:
      return line::reassign_bad_class;
    case Engine::Reassign::no_spare:
      return line::reassign_no_spare;
    case Engine::Reassign::same:
      return line::reassign_same;
    case Engine::Reassign::disabled:
      break;
  }
  return line::no_reassign;
}

void Admin::set_automove(unsigned level) { state_.engine.set_automove(level); }

bool Admin::set_memory_limit(std::uint64_t bytes) {
  if (!state_.engine.set_memory_limit(bytes)) return false;
  state_.set_memory_limit(bytes);
  return true;
}

void Admin::set_detail(bool on) { state_.events.set_detail(on); }
std::string Admin::detail() { return state_.prefixes.dump(); }

bool Admin::tracks_sizes() const { return state_.track_sizes.load(std::memory_order_relaxed); }
void Admin::set_track_sizes(bool on) { state_.track_sizes.store(on, std::memory_order_relaxed); }

bool Admin::crawls() const { return state_.engine.crawler().stats().enabled; }

bool Admin::set_crawls(bool on) {
  Crawler& crawler = state_.engine.crawler();
  if (on && crawls()) return false;
  return crawler.set_enabled(on);
}

std::string_view Admin::crawl(const StreamRequest::Classes& classes) {
  static_assert(Crawler::Classes().size() == StreamRequest::Classes().size());
  switch (state_.engine.crawler().crawl(classes >> 1)) {  // there they are counted from 0
    case Crawler::Asked::started:
      return codec::line::ok;
    case Crawler::Asked::busy:
      return codec::line::dump_busy;
    case Crawler::Asked::disabled:
      break;
  }
  return codec::line::no_crawler;
}

void Admin::set_crawl_sleep_us(std::uint32_t sleep_us) { state_.engine.crawler().set_sleep_us(sleep_us); }
void Admin::set_crawl_items(std::uint32_t items) { state_.engine.crawler().set_items_per_run(items); }

void Admin::shut_down(bool graceful) {
  if (state_.options.stop_asked) state_.options.stop_asked(graceful);
  state_.stop_asked.store(true, std::memory_order_relaxed);
}

}  // namespace tandem::net
