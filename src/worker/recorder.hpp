// Notes what one worker does for clients that watch, and for the statistics by key prefix.
//
// Thread safety: the worker's thread.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/engine.hpp"
#include "net/peer_address.hpp"
#include "query/batch.hpp"
#include "worker/event_log.hpp"
#include "worker/prefix_stats.hpp"

namespace tandem::net {

enum class CloseReason : std::uint8_t { error, normal, idle_timeout, shutdown };

class Recorder final : public Observer {
 public:
  Recorder(EventLog& log, PrefixStats& prefixes, const Shared& shared)
      : log_(log), ring_(log.make_ring()), prefixes_(prefixes.make_table()), shared_(shared) {}

  // EventLog::flags(); 0: nothing is noted.
  void set_flags(std::uint32_t flags) noexcept { flags_ = flags; }
  std::uint32_t flags() const noexcept { return flags_; }

  // The query, no control query, has been answered to the client at `fd`. REQUIRES: inside the epoch in which it was
  // executed.
  void answered(const Query& q, const Result& r, int fd);
  void closed(int fd, const PeerAddress& client, CloseReason reason);

  void looked_up(const Query& query, Lookup lookup, const Item* item) noexcept override;
  void evicted(Location l, const Item* item, std::uint64_t state) noexcept override;
  void page_moved(SizeClass from, SizeClass to) noexcept override;

 private:
  // What a query that writes found before.
  struct Seen {
    const Query* query = nullptr;
    Lookup lookup = Lookup::not_found;
    std::uint16_t size_class = 0;
    std::uint64_t value_bytes = 0;
  };

  void note(const Query& q, const Result& r, int fd);
  Seen seen_by(const Query& q, const Result& r) const noexcept;
  std::uint16_t class_number(const Item* item) const noexcept;
  void fetched(const Query& q, const Seen& seen, int fd);
  void stored(const Query& q, const Result& r, Command command, int fd);
  void removed(const Query& q, const Seen& seen, int fd);
  void count_prefix(const Query& q, const Result& r);

  EventLog& log_;
  EventRing& ring_;
  PrefixStats::Table& prefixes_;
  const Shared& shared_;
  std::uint32_t flags_ = 0;
  std::array<Seen, strip_queries_max> seen_{};  // of the queries that were looked up last
  std::size_t seen_next_ = 0;
};

// The same for the engine's maintenance thread.
class MaintenanceRecorder final : public Observer {
 public:
  MaintenanceRecorder(EventLog& log, const Shared& shared) noexcept : log_(log), shared_(shared) {}
  void looked_up(const Query&, Lookup, const Item*) noexcept override {}
  void evicted(Location l, const Item* item, std::uint64_t state) noexcept override;
  void page_moved(SizeClass from, SizeClass to) noexcept override;

 private:
  EventLog& log_;
  const Shared& shared_;
};

// Notes that a connection was opened, from any thread.
void note_opened(EventLog& log, int fd, const PeerAddress& client);

}  // namespace tandem::net
