// Tandem embedded: the store in your process. The same heap, index and task pipeline as the server, without a network.
//
//   tandem::Store store({.memory_bytes = 1 << 30});
//   store.set("answer", "42", {.ttl_s = 60});
//   if (auto value = store.get("answer")) use(*value);
//
// Keys: 1 to 250 bytes, any bytes. Values: 0 bytes up to Options::item_bytes_max (which counts key and header too).
// A full store evicts what was not used lately (CLOCK), unless Options::evict is off.
//
// Thread safety: a Store may be used from any number of threads at once (Options::threads_max bounds them). Operations
// on one key are linearizable. Each thread gets a Session of its own on first use; a Session taken explicitly belongs
// to one thread at a time and saves the look-up.
//
// Lifetime, fork, threads: every Session must be gone before its Store; a Store that is destroyed while one is open
// ends the program. A Store starts two threads of its own, and one more for each GPU; with a memory file the
// constructor uses up to 16 more while it reads the file. They do not exist in a child of fork(): the child must not
// use the Store, nor destroy it, and should call exec or _exit. It holds the lock of a memory file until then. Use of a
// Store or of a Session that is gone is undefined.
//
// docs/embedding.md of the source tree has examples, and each call's codes in one table.
#pragma once
#if __cplusplus < 202002L
#error "tandem/store.hpp needs C++20: compile with -std=c++20"
#endif
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct Options {
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // items and index together; 4 MiB to 128 GiB
  std::uint64_t item_bytes_max = std::uint64_t{1} << 20;  // 1 KiB to 1 GiB, and at most half of memory_bytes
  std::uint32_t item_bytes_expected = 256;                // sizes the first index table; it grows by itself
  std::uint32_t threads_max = 256;  // sessions open at once, those of threads included; 1 to 65536
  bool evict = true;                // off: a full store answers out_of_memory
  bool huge_pages = true;           // ask the kernel for transparent huge pages
  bool ordered = false;             // keep the keys in order, too, for scans; some 15 bytes of memory a key
  bool arrange = true;              // of an ordered store: rewrite small items that are scanned often next to each
                                    // other, in the background, with at most 2 % of a processor
  std::string memory_file = {};     // items lie in this file and outlive the process, also one that is killed
                                    // (docs/restart.md of the source tree); empty: in memory alone
  std::uint64_t hash_seed = 0;  // 0: random. A fixed one makes runs alike, and lets whoever chooses keys choose ones
                                // that collide
  // GPUs that run a part of batch calls. 0, 1, 2, 4 or 8: several share the keys. The constructor throws
  // std::runtime_error if there are fewer, or one cannot be used. One that fails later is left, and the store goes on.
  unsigned gpus = 0;
  std::string gpu = "cuda";     // or "sim": in software, to see that it works
  std::string preset = "auto";  // what they do (docs/gpu.md of the source tree): auto, mirrored, mega-kv, kvcg.
                                // cpu: nothing. memcachedgpu: nothing, over an index that keeps its size and evicts.
                                // heterokv: nothing, over a tree of hash tables, which is ordered
  std::uint64_t gpu_value_bytes = 0;  // of each one's memory, for copies of small items; not with mega-kv, kvcg. 0:
                                      // none, with memcachedgpu of all. Calls do not read them
  // Or the plan of every batch, as `tandem plans` writes it; of its stages GPUs run the search. Empty: the preset's.
  std::string plan = {};
  // The kind of index in place of the preset's, without GPUs: slab_list, cuckoo, set_associative, hash_tree.
  std::string index = {};
};

enum class Code : std::uint8_t {
  hit,   // get, touch: there is such an item. increment, decrement: `number` is the new value. exchange: stored, and
         // there was an item
  miss,  // there is none
  stored,
  not_stored,  // add found an item; replace, append, prepend found none
  exists,      // compare-and-set: the item has changed since
  removed,
  not_a_number,  // increment, decrement: the value is not a decimal number of 64 bits
  too_large,     // the item would exceed item_bytes_max. A set removes the old item of the key, so that no thread reads
                 // what was to be replaced; every other call leaves it
  out_of_memory,  // no memory could be freed; a set removes the old item likewise
  bad_key,        // empty or longer than 250 bytes: nothing was done
};

enum class Action : std::uint8_t {
  get,
  touch,
  set,
  add,
  replace,
  append,
  prepend,
  compare_and_set,
  remove,
  increment,
  decrement,
  compare_and_remove,  // removed, or exists: the item's cas is another one; miss
  exchange,            // hit: the reply's value, flags and cas are the old item's; stored: there was none
  take                 // removed, likewise; miss
};

// What compares a read's item with the key (Mega-KV 8.1: `get` and `getk`).
//   store   the store compares the keys: a hit is the key's item, always
//   caller  the store need not: a hit may be an item of another key with a similar hash (one read in some hundred
//           million). Reply::key() tells; is_reply_to() compares, Session::get_batch_checked() also asks again. Misses
//           are right either way.
enum class KeyCheck : std::uint8_t { store, caller };

// One operation of a batch. Views must stay valid until the call returns.
struct Request {
  Action action = Action::get;
  std::string_view key;
  std::string_view value = {};  // set, add, replace, append, prepend, compare_and_set, exchange
  std::int64_t ttl_s = 0;       // seconds from now; 0 never; negative: at once. (Up to 30 days; larger numbers are Unix
                                // seconds, as in memcached)
  std::uint32_t flags = 0;      // a number kept with the item for the caller
  KeyCheck key_check = KeyCheck::store;  // get
  std::uint64_t cas = 0;                 // compare_and_set, compare_and_remove: Reply::cas of the read
  std::uint64_t delta = 1;               // increment (wraps at 2^64), decrement (stops at 0)
};

// What became of one operation. `value` and key() point into the store and are valid only while the visitor runs.
struct Reply {
  Code code = Code::miss;
  std::uint8_t key_bytes = 0;
  std::string_view value = {};
  std::uint32_t flags = 0;
  std::uint64_t cas = 0;     // of the item read or stored, or the old one; grows with every change of a key
  std::uint64_t number = 0;  // increment, decrement

  // Of a get that hit, or an old item: the item's own key. It lies before the value.
  std::string_view key() const noexcept { return {value.data() - key_bytes, key_bytes}; }
};

// Whether a get's reply is about `key`: only a hit with KeyCheck::caller may be about another one.
inline bool is_reply_to(std::string_view key, const Reply& reply) noexcept {
  return reply.code != Code::hit || reply.key() == key;
}

struct StoreOptions {      // of one set
  std::int64_t ttl_s = 0;  // as of Request
  std::uint32_t flags = 0;
};

struct Value {
  std::string bytes;
  std::uint32_t flags = 0;
  std::uint64_t cas = 0;
};

struct Stats {
  std::uint64_t items, item_bytes, memory_used_bytes, memory_limit_bytes, index_bytes;
  std::uint64_t gets, hits, misses, stores, evictions, expired;
  std::uint64_t gpu_searches;  // keys that GPUs have searched for, of all
};

// Keys from `begin` up to but not including `end`, in the order of their bytes; a key comes before those that it
// begins. Empty: no bound on that side.
struct KeyRange {
  std::string_view begin = {}, end = {};
  bool after_begin = false;  // without `begin` itself
  bool reverse = false;      // from the end downwards

  // Leaves what a scan that has come to `last` has not seen; the range refers to it.
  void go_on_behind(std::string_view last) {
    (reverse ? end : begin) = last;
    if (!reverse) after_begin = true;
  }
};

// All keys that begin with `prefix`: `end` refers to `above`, which receives the least key that is above all of them.
KeyRange range_of_prefix(std::string_view prefix, std::string& above);

struct ScannedItem {
  std::string_view key, value;  // valid during the visit
  std::uint32_t flags;
  std::uint64_t cas;
};

// A scan's items as it has copied them, which scan() takes apart for its visitor.
struct ScannedItems {
  using Place = std::array<const char*, 2>;  // of a copy, and of its item, which may be gone
  const Place* places;
  std::size_t count;
  std::uint64_t cas;  // bits of CAS ids that are shown

  // A copy: two words of 8 bytes; a huge value's length, 8 bytes; client flags that are not 0, 4 bytes; key; value.
  // In the second word:
  static constexpr std::uint64_t header_bytes = 16, huge_bytes = 8, key_bytes = 0xff, value_bytes_at = 8,
                                 value_bytes_limit = 0xfffff, has_flags = 1 << 28, is_huge = 1 << 29, cas_low_at = 31,
                                 cas_low_bits = 33;
  static constexpr std::uint64_t cas_high_at = 21, cas_high_limit = 0x7ff;  // in the first word

  template <class F>
  void each(F visit) const {
    const std::uint64_t cas_shown = cas;  // in a register, whatever `visit` writes
    for (const Place *at = places, *const end = at + count; at != end; ++at) visit(item(*at, cas_shown));
  }
  static ScannedItem item(const Place& place, std::uint64_t cas_shown) noexcept {
    const char* at = place[0];
    std::uint64_t words[2];
    std::memcpy(words, at, sizeof words);
    at += header_bytes;
    ScannedItem item{};
    std::size_t value_bytes = words[1] >> value_bytes_at & value_bytes_limit;
    if ((words[1] & (has_flags | is_huge)) != 0) [[unlikely]] {
      if ((words[1] & is_huge) != 0) {
        std::memcpy(&value_bytes, at, huge_bytes);
        at += huge_bytes;
      }
      if ((words[1] & has_flags) != 0) {
        std::memcpy(&item.flags, at, sizeof item.flags);
        at += sizeof item.flags;
      }
    }
    item.key = {at, words[1] & key_bytes};
    item.value = {at + item.key.size(), value_bytes};
    item.cas = ((words[0] >> cas_high_at & cas_high_limit) << cas_low_bits | words[1] >> cas_low_at) & cas_shown;
    return item;
  }
};

// How a scan ended. Not done: there may be more behind `last`, a key that may have gone meanwhile.
struct Scanned {
  std::size_t count = 0;
  bool done = true;
  std::string last = {};
};

// One of a batch of scans. Its range may refer to its own `scanned.last`, as range.go_on_behind(scanned.last) leaves
// it, until the scan is made again or the structure is moved; not to that of another scan.
struct RangeScan {
  KeyRange range;
  std::size_t limit;
  Scanned scanned = {};  // how it ended; `last` stays as it was if it is done
};

// One thread's entry to a store. Made by Store::session(); gone before the store is. Calls throw std::bad_alloc when
// the process has no memory for a result; nothing else, but for what scans say.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // The value; nothing when there is none, or for a bad key.
  std::optional<std::string> get(std::string_view key);
  // hit, miss, bad_key. Reads into `value` (its capacity is reused): miss or bad_key leave it alone.
  Code get(std::string_view key, Value& value);
  // Writes of values answer stored, too_large, out_of_memory, bad_key, or as noted.
  Code set(std::string_view key, std::string_view value, StoreOptions options = {});
  // Or not_stored: there is an item.
  Code add(std::string_view key, std::string_view value, StoreOptions options = {});
  // Or not_stored: there is no item.
  Code replace(std::string_view key, std::string_view value, StoreOptions options = {});
  // Or not_stored: there is no item. Flags and time to live stay.
  Code append(std::string_view key, std::string_view value);
  Code prepend(std::string_view key, std::string_view value);
  // Or exists: the item's cas is another one; miss: there is no item.
  Code compare_and_set(std::string_view key, std::string_view value, std::uint64_t cas, StoreOptions options = {});
  // A set that returns the item which it replaces, and leaves it if refused: hit (`old` has it), stored (there was
  // none: `old` stays), too_large, out_of_memory, bad_key. Of several exchanges of a key each value is returned once.
  // std::bad_alloc: it was done, and the old value is lost.
  Code exchange(std::string_view key, std::string_view value, Value& old, StoreOptions options = {});
  // removed, miss, bad_key.
  Code remove(std::string_view key);
  // The same, and `old` has the item that was removed; else it stays. std::bad_alloc: as exchange().
  Code take(std::string_view key, Value& old);
  // hit, miss, bad_key. ttl_s: as of Request.
  Code touch(std::string_view key, std::int64_t ttl_s);
  // The new number, or nothing with the reason in `code` if given: miss, not_a_number, out_of_memory, bad_key.
  std::optional<std::uint64_t> increment(std::string_view key, std::uint64_t delta = 1, Code* code = nullptr);
  std::optional<std::uint64_t> decrement(std::string_view key, std::uint64_t delta = 1, Code* code = nullptr);

  // Runs the requests in order and calls visit(index, reply) for each, in order. Reads and writes of many keys overlap
  // their cache misses: batches of 32 and more are several times faster per operation than single calls. The visitor
  // must not use the store or throw, and should be short: memory that the store frees meanwhile cannot be reused before
  // it returns.
  template <class Visitor>
  void execute(std::span<const Request> requests, Visitor&& visit) {
    execute_erased(requests, visit_all<std::remove_reference_t<Visitor>>,
                   const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }
  // The same for reads alone.
  template <class Visitor>
  void get_batch(std::span<const std::string_view> keys, Visitor&& visit, KeyCheck check = KeyCheck::store) {
    get_batch_erased(keys, check, visit_all<std::remove_reference_t<Visitor>>,
                     const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }
  // get_batch() with KeyCheck::caller, and the check: every reply that is visited is about its key. Keys with a reply
  // was about another one are read again with KeyCheck::store, a little later than their neighbours, so that they come
  // out of order. Returns how many there were.
  template <class Visitor>
  std::uint64_t get_batch_checked(std::span<const std::string_view> keys, Visitor&& visit) {
    constexpr std::size_t keys_at_once = 1024;
    std::uint64_t again = 0;
    for (std::size_t first = 0; first < keys.size(); first += keys_at_once) {
      const auto some = keys.subspan(first, std::min(keys_at_once, keys.size() - first));
      std::array<std::uint16_t, keys_at_once> others;
      std::size_t other_count = 0;
      const auto check = [&](std::size_t i, const Reply& reply) {
        if (is_reply_to(some[i], reply)) {
          visit(first + i, reply);
        } else {
          others[other_count++] = static_cast<std::uint16_t>(i);
        }
      };
      get_batch(some, check, KeyCheck::caller);
      for (std::size_t n = 0; n < other_count; ++n) {
        const std::size_t at = first + others[n];
        get_batch(keys.subspan(at, 1), [&](std::size_t, const Reply& reply) { visit(at, reply); });
      }
      again += other_count;
    }
    return again;
  }

  // Calls visit(ScannedItem) for the range's first items, in order: at most `limit`, 1,024, and 256 KiB of keys and
  // values, one item at least. They are a snapshot: the store held these items at one moment of the call, and no other
  // between them. It may end earlier still, or without an item, and not be done. Items that are scanned do not count as
  // read: the eviction policy does not see them. The visitor is called when the snapshot is complete, and may use the
  // store. Throws std::logic_error: the store is not ordered (Options::ordered, preset heterokv);
  // std::invalid_argument: limit is 0; std::bad_alloc.
  template <class Visitor>
  Scanned scan(const KeyRange& range, std::size_t limit, Visitor&& visit) {
    return scan_erased(range, limit, visit_items<std::remove_reference_t<Visitor>>,
                       const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }
  // scan() of each, in order: visit(index, ScannedItem). Each is a snapshot of its own. What they read first is fetched
  // for 16 of them together, so scans of what lies in memory, not in the processor's caches, take less time. Throws as
  // scan(), for a limit of 0 before any; std::bad_alloc and what the visitor throws end it behind the scans before.
  template <class Visitor>
  void scan_batch(std::span<RangeScan> scans, Visitor&& visit) {
    scan_batch_erased(scans, visit_batch_items<std::remove_reference_t<Visitor>>,
                      const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }
  // Calls visit(ScannedItem) for all items of the range, one snapshot of up to `page` items after the other: sorted,
  // none twice, and what is there during all of the call is not missed. Throws as scan(). Returns how many there were.
  template <class Visitor>
  std::uint64_t scan_all(KeyRange range, Visitor&& visit, std::size_t page = 256) {
    std::uint64_t count = 0;
    std::string last;
    for (;;) {
      Scanned scanned = scan(range, page, visit);
      count += scanned.count;
      if (scanned.done) return count;
      last = std::move(scanned.last);
      range.go_on_behind(last);
    }
  }
  // Removes all keys of the range, each as remove() does, and not all at one moment: a key that is set meanwhile may
  // stay. Returns how many were removed. Throws as scan().
  std::uint64_t remove_range(const KeyRange& range);
  // Rewrites small items next to each other in the order of their keys, so that scans are faster: all of the store,
  // now, as after loading it (Options::arrange does it for what is scanned often). Items with key, value and header in
  // more than 128 bytes stay where they are. Needs free memory for a mebibyte or two; without any it evicts as much of
  // a size class that has 64 pages or more, or stops. Other threads may use the store meanwhile. Returns how many items
  // it has rewritten: those that lie in order stay. Throws std::logic_error: the store is not ordered; std::bad_alloc.
  std::uint64_t arrange();

 private:
  friend class Store;
  friend class OneCall;
  // Called with several items, or replies to neighbouring queries, at once, so that the visitor is inlined into the
  // loop over them.
  using ErasedItemVisitor = void (*)(void* visitor, const ScannedItems& items);
  template <class Visitor>
  static void visit_items(void* visitor, const ScannedItems& items) {
    Visitor& visit = *static_cast<Visitor*>(visitor);
    items.each([&visit](const ScannedItem& item) { visit(item); });
  }
  Scanned scan_erased(const KeyRange& range, std::size_t limit, ErasedItemVisitor visit, void* visitor);
  using ErasedBatchVisitor = void (*)(void* visitor, std::size_t index, const ScannedItems& items);
  template <class Visitor>
  static void visit_batch_items(void* visitor, std::size_t index, const ScannedItems& items) {
    Visitor& visit = *static_cast<Visitor*>(visitor);
    items.each([&visit, index](const ScannedItem& item) { visit(index, item); });
  }
  void scan_batch_erased(std::span<RangeScan> scans, ErasedBatchVisitor visit, void* visitor);
  using ErasedVisitor = void (*)(void* visitor, std::size_t first, std::span<const Reply> replies);
  template <class Visitor>
  static void visit_all(void* visitor, std::size_t first, std::span<const Reply> replies) {
    Visitor& visit = *static_cast<Visitor*>(visitor);
    for (std::size_t i = 0; i < replies.size(); ++i) visit(first + i, replies[i]);
  }
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl) noexcept;
  void execute_erased(std::span<const Request> requests, ErasedVisitor visit, void* visitor);
  void get_batch_erased(std::span<const std::string_view> keys, KeyCheck check, ErasedVisitor visit, void* visitor);
  Code run(const Request& request, std::uint64_t* number);
  Code run_for_value(const Request& request, Value& value);
  std::unique_ptr<Impl> impl_;
};

class Store {
 public:
  // Throws std::invalid_argument on bad options (such as a plan that is not feasible with what they ask for),
  // std::system_error or std::bad_alloc when memory or a thread cannot be had, std::runtime_error with the reason when
  // memory_file is in use or is no file of Tandem's, and when the GPUs asked for are not there. With a file it returns
  // when all items can be read.
  explicit Store(const Options& options = {});
  // REQUIRES: no thread is inside a call; explicit Sessions are gone, else the program is ended with a message.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // A session of the caller's own. Throws std::runtime_error when threads_max sessions are open.
  Session session();
  // The calling thread's session, made on first use and given back when the thread ends. Throws as session() does; so
  // do all calls below but clear() and stats(), by a thread's first use of the store.
  Session& here();

  std::optional<std::string> get(std::string_view key) { return here().get(key); }
  Code get(std::string_view key, Value& value) { return here().get(key, value); }
  Code set(std::string_view key, std::string_view value, StoreOptions options = {}) {
    return here().set(key, value, options);
  }
  Code add(std::string_view key, std::string_view value, StoreOptions options = {}) {
    return here().add(key, value, options);
  }
  Code replace(std::string_view key, std::string_view value, StoreOptions options = {}) {
    return here().replace(key, value, options);
  }
  Code append(std::string_view key, std::string_view value) { return here().append(key, value); }
  Code prepend(std::string_view key, std::string_view value) { return here().prepend(key, value); }
  Code compare_and_set(std::string_view key, std::string_view value, std::uint64_t cas, StoreOptions options = {}) {
    return here().compare_and_set(key, value, cas, options);
  }
  Code exchange(std::string_view key, std::string_view value, Value& old, StoreOptions options = {}) {
    return here().exchange(key, value, old, options);
  }
  Code remove(std::string_view key) { return here().remove(key); }
  Code take(std::string_view key, Value& old) { return here().take(key, old); }
  Code touch(std::string_view key, std::int64_t ttl_s) { return here().touch(key, ttl_s); }
  std::optional<std::uint64_t> increment(std::string_view key, std::uint64_t delta = 1, Code* code = nullptr) {
    return here().increment(key, delta, code);
  }
  std::optional<std::uint64_t> decrement(std::string_view key, std::uint64_t delta = 1, Code* code = nullptr) {
    return here().decrement(key, delta, code);
  }
  template <class Visitor>
  void execute(std::span<const Request> requests, Visitor&& visit) {
    here().execute(requests, std::forward<Visitor>(visit));
  }
  template <class Visitor>
  void get_batch(std::span<const std::string_view> keys, Visitor&& visit, KeyCheck check = KeyCheck::store) {
    here().get_batch(keys, std::forward<Visitor>(visit), check);
  }
  template <class Visitor>
  std::uint64_t get_batch_checked(std::span<const std::string_view> keys, Visitor&& visit) {
    return here().get_batch_checked(keys, std::forward<Visitor>(visit));
  }

  // Calls visit for every item; items that are there throughout are seen, items stored or removed meanwhile may be. An
  // item with a key rewritten meanwhile may be seen in either form; one that the store moves to other memory meanwhile
  // (a page changes its size class) perhaps twice or not at all. visit must not use the store. Views are valid only
  // while it runs.
  void for_each(const std::function<void(std::string_view key, const Reply& item)>& visit);

  // Forgets every item that is in the store now.
  void clear();
  Stats stats() const;

 private:
  friend class Session;
  struct Core;
  struct Sessions;
  Session& find_session();
  Session& take_session();
  std::shared_ptr<Core> core_;
};

}  // namespace tandem
