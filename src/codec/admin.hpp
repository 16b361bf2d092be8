// Commands for operators: their requests to the server, and streamed answers.
#pragma once
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// Events that a client can watch, a bit each.
namespace watch_event {
inline constexpr std::uint32_t evictions = 1 << 0;
inline constexpr std::uint32_t fetchers = 1 << 1;
inline constexpr std::uint32_t mutations = 1 << 2;
inline constexpr std::uint32_t sysevents = 1 << 3;
inline constexpr std::uint32_t connevents = 1 << 4;
inline constexpr std::uint32_t deletions = 1 << 5;
// rawcmds, proxyreqs, proxyevents, proxyuser: accepted, but such events never occur (rawcmds not in memcached 1.6.18
// either).
inline constexpr std::uint32_t silent = 1 << 6;
}  // namespace watch_event

// An answer that the connection's owner writes piece by piece.
struct StreamRequest {
  enum class Kind : std::uint8_t { none, metadump, mgdump, cachedump, sizes, watch };
  using Classes = std::bitset<256>;  // by size class, counted from 1

  Kind kind = Kind::none;
  Classes classes = Classes().set();  // of dumps
  std::uint32_t items_max = 0;        // cachedump; 0: no limit
  std::uint32_t events = 0;           // watch: watch_event::*
};

// The server's side of these commands. Thread safety: any thread.
class Administration {
 public:
  virtual ~Administration() = default;
  // The reply line of `slabs reassign`.
  virtual std::string_view reassign(int from, int to) = 0;
  virtual bool reassigns() const = 0;
  virtual void set_automove(unsigned level) = 0;
  // False: the memory is not available.
  virtual bool set_memory_limit(std::uint64_t bytes) = 0;
  virtual void set_detail(bool on) = 0;
  // The PREFIX lines of `stats detail dump`, without the END.
  virtual std::string detail() = 0;
  virtual bool tracks_sizes() const = 0;
  virtual void set_track_sizes(bool on) = 0;
  // `lru_crawler`: whether it runs at all; a run over these classes (counted from 1) and its reply line.
  virtual bool crawls() const = 0;
  virtual bool set_crawls(bool on) = 0;  // false: it is running already, or cannot start
  virtual std::string_view crawl(const StreamRequest::Classes& classes) = 0;
  virtual void set_crawl_sleep_us(std::uint32_t sleep_us) = 0;
  virtual void set_crawl_items(std::uint32_t items) = 0;
  // Starts the server's shutdown.
  virtual void shut_down(bool graceful) = 0;

#ifdef TANDEM_DEBUG_COMMANDS
  enum class DebugTime : std::uint8_t { pause, resume, advance };
  enum class DebugItem : std::uint8_t { lock, unlock, ref, unref };
  virtual void debug_time(DebugTime how, std::int64_t seconds) = 0;
  // False: no such item.
  virtual bool debug_item(DebugItem how, std::string_view key, std::uint32_t count) = 0;
#endif
};

}  // namespace tandem
