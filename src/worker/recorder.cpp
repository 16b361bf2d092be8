#include "worker/recorder.hpp"

#include <algorithm>

#include "codec/admin.hpp"
#include "codec/reply.hpp"
#include "codec/tokens.hpp"
#include "net/endpoint.hpp"

namespace tandem::net {
namespace {

// Places in the list of names of event_log.cpp.
enum Stored : std::uint8_t { not_stored, stored_ok, exists, not_found, too_large, no_memory };

Stored stored_of(Status status) noexcept {
  switch (status) {
    case Status::stored:
    case Status::number:
      return stored_ok;
    case Status::exists:
      return exists;
    case Status::not_found:
      return not_found;
    case Status::too_large:
      return too_large;
    case Status::out_of_memory:
      return no_memory;
    default:
      return not_stored;
  }
}

// As memcached names it: cas if it would else be set or replace.
Command recorded_command_of(const Query& q) noexcept {
  const bool overwrites = q.mode == StoreMode::set || q.mode == StoreMode::replace;
  return overwrites && q.has(option::compare_cas) ? Command::cas : update_of(q.mode);
}

// The key of a store that the parser has refused, which is the line's second word: the query does not have it.
std::string_view key_of(const Query& q) noexcept {
  if (q.key_bytes != 0) return q.key_view();
  if (codec::is_binary(q)) return {};
  codec::Tokens words(q.wire, q.wire + q.wire_bytes);
  std::string_view word;
  words.next(word);
  words.next_key(word);
  return word.substr(0, key_bytes_max);
}

// A size class as clients see it: from 1.
std::uint16_t class_number(const Heap& heap, SizeClass c) noexcept {
  return static_cast<std::uint16_t>((c == huge_class ? heap.class_count() : c) + 1);
}

Event eviction(const Shared& shared, Location l, const Item* item, std::uint64_t state) noexcept {
  Event e{};
  const std::uint32_t now_s = shared.clock.now_s(), expiry_s = Item::expiry_of(state);
  e.type = EventType::eviction;
  e.stream = watch_event::evictions;
  e.fetched = word::Fetched::get(state) != 0;
  e.left_s = expiry_s == Clock::never ? -1 : std::int64_t{expiry_s} - now_s;
  e.idle_s = (now_s - word::AccessS::get(state)) & word::AccessS::limit;
  e.size_class = class_number(shared.heap, shared.heap.class_of(l));
  e.value_bytes = shared.heap.value_bytes(item);
  return e;
}

Event slab_move(const Shared& shared, SizeClass from, SizeClass to) noexcept {
  Event e{};
  e.type = EventType::slab_move;
  e.stream = watch_event::sysevents;
  e.size_class = class_number(shared.heap, from);
  e.fd = to == huge_class ? 0 : to + 1;
  return e;
}

// A connection's other end goes into the event; returns its address as text.
std::string_view put_client(const PeerAddress& client, int fd, Event& e, char (&text)[INET6_ADDRSTRLEN]) noexcept {
  e.stream = watch_event::connevents;
  e.fd = fd;
  e.left_s = client.is_local() ? -1 : std::int64_t{client.port};
  return host_text(client, text);
}

}  // namespace

std::uint16_t Recorder::class_number(const Item* item) const noexcept {
  const Heap& heap = shared_.heap;
  // An image is outside the heap: its class is that of its size.
  return net::class_number(heap, TD_LIKELY(heap.holds(item)) ? heap.class_of(heap.location_of(item))
                                                             : heap.size_class(heap.total_bytes(item)));
}

void Recorder::looked_up(const Query& query, Lookup lookup, const Item* item) noexcept {
  const auto known = std::ranges::find(seen_, &query, &Seen::query);
  Seen& seen = known != seen_.end() ? *known : seen_[seen_next_++ % seen_.size()];
  seen = {&query, lookup, 0, 0};
  if (item == nullptr) return;
  seen.size_class = class_number(item);
  seen.value_bytes = shared_.heap.value_bytes(item);
}

Recorder::Seen Recorder::seen_by(const Query& q, const Result& r) const noexcept {
  if (const auto seen = std::ranges::find(seen_, &q, &Seen::query); seen != seen_.end()) return *seen;
  if (r.status != Status::hit || r.item == nullptr) return {&q, Lookup::not_found, 0, 0};
  return {&q, Lookup::found, class_number(r.item), r.value_bytes};
}

void Recorder::fetched(const Query& q, const Seen& seen, int fd) {
  Event e{};
  e.type = EventType::item_get;
  e.stream = watch_event::fetchers;
  e.status = static_cast<std::uint8_t>(seen.lookup);
  e.size_class = seen.size_class;
  e.value_bytes = seen.value_bytes;
  e.fd = fd;
  log_.note(ring_, e, q.key_view());
}

void Recorder::stored(const Query& q, const Result& r, Command command, int fd) {
  Event e{};
  e.type = EventType::item_store;
  e.stream = watch_event::mutations;
  e.status = stored_of(r.status);
  e.command = command;
  e.fd = fd;
  // A number's result has the new CAS id in the item's place; its item has no client flags. A result may have the old
  // item in place of the new one.
  const bool is_number = r.status == Status::number, has_old = (r.outcome & outcome::displaced) != 0;
  const bool is_made = is_number || (r.status == Status::stored && r.item != nullptr && !has_old);
  std::uint32_t expiry_s = q.expiry_s;
  if (is_made) {
    e.size_class =
        is_number
            ? net::class_number(shared_.heap, shared_.heap.size_class(Item::total_bytes(0, q.key_bytes, r.value_bytes)))
            : class_number(r.item);
    e.value_bytes = r.value_bytes;
    if (q.concatenates()) expiry_s = Clock::never;  // as memcached, which reads the item of the added piece
    if (is_number) expiry_s = q.vivify_expiry_s;
  } else if (e.status != too_large && e.status != no_memory) {
    e.value_bytes = q.value_bytes;
    const SizeClass c = shared_.heap.size_class(Item::total_bytes(q.client_flags, q.key_bytes, q.value_bytes));
    e.size_class = net::class_number(shared_.heap, c);
  }
  if (expiry_s != Clock::never) e.ttl_s = expiry_s - shared_.clock.now_s();
  log_.note(ring_, e, key_of(q));
}

void Recorder::removed(const Query& q, const Seen& seen, int fd) {
  Event e{};
  e.type = EventType::deleted;
  e.stream = watch_event::deletions;
  e.command = q.has(option::meta) ? Command::md : Command::remove;
  e.size_class = seen.size_class;
  e.value_bytes = seen.value_bytes;
  e.fd = fd;
  log_.note(ring_, e, q.key_view());
}

// memcached counts the commands of the text protocol alone.
void Recorder::count_prefix(const Query& q, const Result& r) {
  if (q.has(option::meta)) return;
  if (q.opcode == Opcode::get) {
    prefixes_.count(q.key_view(), {.gets = 1, .hits = r.status == Status::hit ? 1u : 0u, .sets = 0, .removes = 0});
  } else if (q.opcode == Opcode::store || q.has(option::store_no_memory)) {
    prefixes_.count(key_of(q), {.sets = 1});
  } else if (q.opcode == Opcode::remove) {
    prefixes_.count(q.key_view(), {.removes = 1});
  }
}

void Recorder::answered(const Query& q, const Result& r, int fd) {
  note(q, r, fd);
  seen_.fill({});
}

void Recorder::note(const Query& q, const Result& r, int fd) {
  constexpr std::uint16_t refused_marks = option::store_no_memory;
  if ((flags_ & EventLog::detail_flag) != 0) count_prefix(q, r);
  // The parser has replaced the opcode of a store that it refused.
  const auto refused = static_cast<std::uint16_t>(q.options & refused_marks);
  if (refused != 0 && (q.opcode == Opcode::nothing || q.opcode == Opcode::remove)) {
    if ((flags_ & watch_event::mutations) == 0 || refused == option::store_bad_block) return;
    Result why = r;
    why.item = nullptr;
    why.status = refused == option::store_no_memory ? Status::out_of_memory : Status::too_large;
    return stored(q, why, recorded_command_of(q), fd);
  }
  if (q.opcode == Opcode::nothing) return;
  const Seen seen = seen_by(q, r);
  const bool made_number = r.status == Status::number && (r.outcome & outcome::created) != 0;
  if ((flags_ & watch_event::fetchers) != 0) {
    fetched(q, seen, fd);
    if (made_number) fetched(q, seen, fd);  // memcached searches again before it adds
  }
  if ((flags_ & watch_event::mutations) != 0) {
    if (q.opcode == Opcode::store) stored(q, r, recorded_command_of(q), fd);
    if (made_number) stored(q, r, Command::add, fd);
  }
  if ((flags_ & watch_event::deletions) != 0 && q.opcode == Opcode::remove && r.status == Status::removed &&
      !q.has(option::invalidate))
    removed(q, seen, fd);
}

void Recorder::closed(int fd, const PeerAddress& client, CloseReason reason) {
  Event e{};
  e.type = EventType::conn_close;
  e.status = static_cast<std::uint8_t>(reason);
  char text[INET6_ADDRSTRLEN];
  const std::string_view address = put_client(client, fd, e, text);
  log_.note(ring_, e, address);
}

void Recorder::evicted(Location l, const Item* item, std::uint64_t state) noexcept {
  if ((flags_ & watch_event::evictions) == 0) return;
  Event e = eviction(shared_, l, item, state);
  log_.note(ring_, e, item->key());
}

void Recorder::page_moved(SizeClass from, SizeClass to) noexcept {
  if ((flags_ & watch_event::sysevents) == 0) return;
  Event e = slab_move(shared_, from, to);
  log_.note(ring_, e, {});
}

void MaintenanceRecorder::evicted(Location l, const Item* item, std::uint64_t state) noexcept {
  if ((log_.flags() & watch_event::evictions) == 0) return;
  Event e = eviction(shared_, l, item, state);
  log_.note(e, item->key());
}

void MaintenanceRecorder::page_moved(SizeClass from, SizeClass to) noexcept {
  if ((log_.flags() & watch_event::sysevents) == 0) return;
  Event e = slab_move(shared_, from, to);
  log_.note(e, {});
}

void note_opened(EventLog& log, int fd, const PeerAddress& client) {
  if ((log.flags() & watch_event::connevents) == 0) return;
  Event e{};
  e.type = EventType::conn_new;
  char text[INET6_ADDRSTRLEN];
  const std::string_view address = put_client(client, fd, e, text);
  log.note(e, address);
}

}  // namespace tandem::net
