// `watch`: from the events that workers note in their rings to lines in the buffers of the clients that watch. A thread
// of its own formats them, started with the first watcher; without watchers it sleeps and flags() is 0.
//
// A slow watcher loses lines: a full ring, or a full buffer of a watcher, drops new events and counts them.
//
// Thread safety: all members from any thread, except that a Ring belongs to one thread, and Watcher::take to the one
// that serves the watcher.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "worker/event_ring.hpp"

namespace tandem::net {

inline constexpr std::size_t watchers_max = 20;  // memcached's

// memcached's line for an event.
void format_event(const Event& event, std::string_view key, std::string& to);

class EventLog {
 public:
  // Beside watch_event::*: prefix statistics are on.
  static constexpr std::uint32_t detail_flag = std::uint32_t{1} << 31;

  struct Counts {
    std::uint64_t worker_written = 0, worker_dropped = 0, watcher_sent = 0, watcher_skipped = 0;
  };

  // A client that watches.
  class Watcher {
   public:
    // Moves some of the text, at most `bytes_max` bytes, to the end of `to`. False: there is none.
    bool take(std::string& to);

   private:
    friend class EventLog;
    std::uint32_t events_ = 0;
    std::uint64_t first_gid_ = 0;  // the first event that it gets
    std::uint64_t skipped_ = 0;    // lines dropped since the last one that fitted
    bool told_ = false;            // `wake` was called for text that it has not taken yet
    std::function<void()> wake_;
    std::mutex mutex_;  // guards text_
    std::string text_;
  };

  EventLog(std::size_t ring_bytes, std::size_t watcher_bytes)
      : ring_bytes_(ring_bytes), watcher_bytes_(watcher_bytes), shared_(ring_bytes) {}
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // The events that watchers, or prefix statistics, want; 0: none.
  std::uint32_t flags() const noexcept { return flags_.load(std::memory_order_relaxed); }
  void set_detail(bool on) noexcept;

  // A ring for one thread, which lives as long as the log.
  EventRing& make_ring();
  // Notes an event in a thread's own ring; fills in number and time.
  void note(EventRing& ring, Event& event, std::string_view key) noexcept;
  // The same for threads that rarely note events.
  void note(Event& event, std::string_view key) noexcept;

  // wake: called by the log's thread when there is text to take; it must not call the log. nullptr: there are too many.
  // Throws std::system_error when the log gets no thread, std::bad_alloc; then nothing has changed.
  std::shared_ptr<Watcher> add(std::uint32_t events, std::function<void()> wake);
  // When it returns, `wake` is not called any more.
  void remove(Watcher& watcher);

  // Delivers at once what has been noted, without waiting for the log's thread.
  void deliver();

  std::size_t watcher_count() const;
  Counts counts() const;

 private:
  void run();
  bool drain(EventRing& ring);
  void hand_out(const Event& event, std::string_view key);
  bool has_line(const Event& event, std::string_view key);
  bool make_room(std::string& text) const;
  void update_flags() noexcept;

  const std::size_t ring_bytes_, watcher_bytes_;
  std::atomic<std::uint32_t> flags_{0};
  std::atomic<bool> detail_{false};
  alignas(cache_line_bytes) std::atomic<std::uint64_t> next_gid_{1};

  std::mutex shared_mutex_;  // guards pushing to shared_
  EventRing shared_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<std::unique_ptr<EventRing>> rings_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
  std::string line_;
  std::uint64_t sent_ = 0, skipped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tandem::net
