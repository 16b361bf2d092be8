#include "worker/event_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <new>
#include <utility>

#include "codec/admin.hpp"
#include "codec/url_encode.hpp"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;

// The thread polls the rings so often while events come; the interval doubles each time that there is none.
constexpr auto look_again_min = 1ms, look_again_max = 16ms;
// Room in a watcher's buffer for the line that says how many were lost.
constexpr std::size_t skipped_line_bytes = 128;

constexpr std::string_view lookup_names[] = {"not_found", "found", "flushed", "expired"};
constexpr std::string_view status_names[] = {"not_stored", "stored", "exists", "not_found", "too_large", "no_memory"};
constexpr std::string_view reason_names[] = {"error", "normal", "idle_timeout", "shutdown"};

std::int64_t unix_us() noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

void format_event(const Event& e, std::string_view key, std::string& to) {
  // The microseconds are not padded to six digits, as in memcached.
  auto out =
      fmt::format_to(std::back_inserter(to), "ts={}.{} gid={} ", e.time_us / 1'000'000, e.time_us % 1'000'000, e.gid);
  const auto put_key = [&](std::string_view type) {
    out = fmt::format_to(out, "type={} key=", type);
    codec::append_url_encoded(to, key);
  };
  switch (e.type) {
    case EventType::item_get:
      put_key("item_get");
      fmt::format_to(out, " status={} clsid={} cfd={} size={}\n", lookup_names[e.status], e.size_class, e.fd,
                     e.value_bytes);
      break;
    case EventType::item_store:
      put_key("item_store");
      fmt::format_to(out, " status={} cmd={} ttl={} clsid={} cfd={} size={}\n", status_names[e.status],
                     name_of(e.command), e.ttl_s, e.size_class, e.fd, e.value_bytes);
      break;
    case EventType::deleted:
      put_key("deleted");
      fmt::format_to(out, " cmd={} clsid={} cfd={} size={}\n", name_of(e.command), e.size_class, e.fd, e.value_bytes);
      break;
    case EventType::eviction:
      put_key("eviction");
      fmt::format_to(out, " fetch={} ttl={} la={} clsid={} size={}\n", e.fetched ? "yes" : "no", e.left_s, e.idle_s,
                     e.size_class, e.value_bytes);
      break;
    case EventType::conn_new:
    case EventType::conn_close: {
      const bool local = e.left_s < 0, closed = e.type == EventType::conn_close;
      fmt::format_to(out, "type={} rip={} rport={} transport={} {}{}{}cfd={}\n", closed ? "conn_close" : "conn_new",
                     local ? std::string_view("unix") : key, local ? 0 : e.left_s, local ? "local" : "tcp",
                     closed ? "reason=" : "", closed ? reason_names[e.status] : "", closed ? " " : "", e.fd);
      break;
    }
    case EventType::slab_move:
      fmt::format_to(out, "type=slab_move src={} dst={}\n", e.size_class, e.fd);
      break;
  }
}

bool EventLog::Watcher::take(std::string& to) {
  const std::lock_guard lock(mutex_);
  if (text_.empty()) return false;
  if (to.empty()) {
    to.swap(text_);
  } else {
    to += text_;
    text_.clear();
  }
  return true;
}

EventLog::~EventLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

EventRing& EventLog::make_ring() {
  auto ring = std::make_unique<EventRing>(ring_bytes_);
  const std::lock_guard lock(mutex_);
  return *rings_.emplace_back(std::move(ring));
}

void EventLog::note(EventRing& ring, Event& event, std::string_view key) noexcept {
  event.key_bytes = static_cast<std::uint16_t>(key.size());
  event.gid = next_gid_.fetch_add(1, std::memory_order_relaxed);
  event.time_us = unix_us();
  ring.push(event, key);
}

void EventLog::note(Event& event, std::string_view key) noexcept {
  const std::lock_guard lock(shared_mutex_);
  note(shared_, event, key);
}

std::shared_ptr<EventLog::Watcher> EventLog::add(std::uint32_t events, std::function<void()> wake) {
  auto watcher = std::make_shared<Watcher>();
  watcher->events_ = events;
  watcher->wake_ = std::move(wake);
  {
    const std::lock_guard lock(mutex_);
    if (watchers_.size() == watchers_max) return nullptr;
    if (!thread_.joinable()) {
      thread_ = std::thread([this] {
        pthread_setname_np(pthread_self(), "tandem-log");  // by itself: another's name is a file that is written
        run();
      });
    }
    watcher->first_gid_ = next_gid_.load(std::memory_order_relaxed);
    watchers_.push_back(watcher);
    update_flags();
  }
  changed_.notify_all();
  return watcher;
}

void EventLog::remove(Watcher& watcher) {
  const std::lock_guard lock(mutex_);
  std::erase_if(watchers_, [&watcher](const auto& w) { return w.get() == &watcher; });
  update_flags();
}

void EventLog::set_detail(bool on) noexcept {
  const std::lock_guard lock(mutex_);
  detail_.store(on, std::memory_order_relaxed);
  update_flags();
}

// REQUIRES: mutex_ is held.
void EventLog::update_flags() noexcept {
  std::uint32_t flags = detail_.load(std::memory_order_relaxed) ? detail_flag : 0;
  for (const auto& watcher : watchers_) flags |= watcher->events_;
  flags_.store(flags, std::memory_order_relaxed);
}

std::size_t EventLog::watcher_count() const {
  const std::lock_guard lock(mutex_);
  return watchers_.size();
}

EventLog::Counts EventLog::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts{shared_.written.get(), shared_.dropped.get(), sent_, skipped_};
  for (const auto& ring : rings_) {
    counts.worker_written += ring->written.get();
    counts.worker_dropped += ring->dropped.get();
  }
  return counts;
}

void EventLog::run() {
  std::unique_lock lock(mutex_);
  auto pause = look_again_min;
  while (!stopping_) {
    if (watchers_.empty()) {
      changed_.wait(lock, [this] { return stopping_ || !watchers_.empty(); });
      continue;
    }
    bool any = drain(shared_);
    // Other threads may add and remove watchers between two rings.
    for (std::size_t i = 0; i < rings_.size() && !stopping_; ++i) {
      any |= drain(*rings_[i]);
      lock.unlock();
      lock.lock();
    }
    for (const auto& watcher : watchers_) {
      if (std::exchange(watcher->told_, false)) watcher->wake_();
    }
    pause = any ? look_again_min : std::min<std::chrono::milliseconds>(2 * pause, look_again_max);
    changed_.wait_for(lock, pause, [this] { return stopping_; });
  }
}

void EventLog::deliver() {
  const std::lock_guard lock(mutex_);
  drain(shared_);
  for (const auto& ring : rings_) drain(*ring);
}

// Takes what the ring holds now; its worker may add more meanwhile. REQUIRES: mutex_ is held.
bool EventLog::drain(EventRing& ring) {
  const std::size_t events_of_ring = ring_bytes_ / sizeof(Event);
  Event event;
  char key[event_key_bytes_max];
  std::size_t count = 0;
  while (count < events_of_ring && ring.pop(event, key)) {
    ++count;
    hand_out(event, {key, event.key_bytes});
  }
  return count != 0;
}

// False: there is no memory for the event's line.
bool EventLog::has_line(const Event& event, std::string_view key) {
  if (!line_.empty()) return true;
  try {
    format_event(event, key, line_);
    return true;
  } catch (const std::bad_alloc&) {
    line_.clear();
    return false;
  }
}

// False: the line exceeds the watcher's buffer, or there is no memory.
bool EventLog::make_room(std::string& text) const {
  const std::size_t bytes = text.size() + line_.size() + skipped_line_bytes;
  if (bytes > watcher_bytes_) return false;
  try {
    text.reserve(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void EventLog::hand_out(const Event& event, std::string_view key) {
  line_.clear();
  for (const auto& watcher : watchers_) {
    if ((watcher->events_ & event.stream) == 0 || event.gid < watcher->first_gid_) continue;
    const std::lock_guard lock(watcher->mutex_);
    if (!has_line(event, key) || !make_room(watcher->text_)) {
      ++watcher->skipped_;
      ++skipped_;
      continue;
    }
    if (watcher->skipped_ != 0) {
      fmt::format_to(std::back_inserter(watcher->text_), "skipped={}\n", std::exchange(watcher->skipped_, 0));
    }
    watcher->text_ += line_;
    watcher->told_ = true;
    ++sent_;
  }
}

}  // namespace tandem::net
