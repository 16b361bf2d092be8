// A worker's events for clients that watch: short records in a ring of bytes. A full ring drops the new record and
// counts it, so noting never waits.
//
// Thread safety: one thread pushes, one other pops; the counters may be read by any.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/platform.hpp"
#include "observe/counters.hpp"
#include "query/opcode.hpp"

namespace tandem::net {

enum class EventType : std::uint8_t { item_get, item_store, deleted, eviction, conn_new, conn_close, slab_move };

struct Event {
  EventType type;
  std::uint8_t status;       // item_get: Lookup; item_store: index of the status' name; conn_close: CloseReason
  Command command;           // item_store, deleted
  bool fetched;              // eviction
  std::uint16_t key_bytes;   // conn_*: of the address
  std::uint16_t size_class;  // 0: none. slab_move: from
  std::int32_t fd;           // conn_*, too. slab_move: to
  std::uint32_t ttl_s;       // item_store
  std::int64_t left_s;       // eviction: time to live; conn_*: the port, or -1 for a Unix socket
  std::uint64_t idle_s;      // eviction
  std::uint64_t value_bytes;
  std::uint64_t gid;     // numbers all events of the server
  std::int64_t time_us;  // Unix time
  std::uint32_t stream;  // the watch_event::* bit of the watchers that get it
};
static_assert(std::is_trivially_copyable_v<Event>);

inline constexpr std::size_t event_key_bytes_max = 256;

class EventRing {
 public:
  // bytes: a power of two.
  explicit EventRing(std::size_t bytes) : bytes_(bytes), data_(new char[bytes]) {}

  // REQUIRES: key.size() == event.key_bytes <= event_key_bytes_max.
  bool push(const Event& event, std::string_view key) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::size_t wanted = sizeof(Event) + key.size();
    if (TD_UNLIKELY(bytes_ - (head - tail_.load(std::memory_order_acquire)) < wanted)) {
      dropped.add();
      return false;
    }
    put(head, &event, sizeof event);
    put(head + sizeof event, key.data(), key.size());
    head_.store(head + wanted, std::memory_order_release);
    written.add();
    return true;
  }

  // Takes the oldest record; false: there is none. `key`: event_key_bytes_max bytes.
  bool pop(Event& event, char* key) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;
    get(tail, &event, sizeof event);
    get(tail + sizeof event, key, event.key_bytes);
    tail_.store(tail + sizeof event + event.key_bytes, std::memory_order_release);
    return true;
  }

  Counter written, dropped;

 private:
  void put(std::uint64_t at, const void* from, std::size_t count) noexcept {
    if (count == 0) return;
    const std::size_t offset = at & (bytes_ - 1), first = std::min(count, bytes_ - offset);
    std::memcpy(data_.get() + offset, from, first);
    if (first != count) std::memcpy(data_.get(), static_cast<const char*>(from) + first, count - first);
  }
  void get(std::uint64_t at, void* to, std::size_t count) const noexcept {
    if (count == 0) return;
    const std::size_t offset = at & (bytes_ - 1), first = std::min(count, bytes_ - offset);
    std::memcpy(to, data_.get() + offset, first);
    if (first != count) std::memcpy(static_cast<char*>(to) + first, data_.get(), count - first);
  }

  const std::size_t bytes_;
  const std::unique_ptr<char[]> data_;
  alignas(cache_line_bytes) std::atomic<std::uint64_t> head_{0};
  alignas(cache_line_bytes) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace tandem::net
