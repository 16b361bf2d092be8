// The operations of the store, and the clients' commands for them: one table each. Their rows determine the parsers'
// choice, the need of memory (MM), names in statistics, metrics and logs, and what has to be fuzzed.
//
// A new command is a row here, a form in a parser if it needs one, its execution, and its reply:
// scripts/check_commands.py counts the files that name one.
//
// Thread safety: constants.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

// Options, a bit set.
namespace option {
inline constexpr std::uint16_t touch = 1 << 0;  // get, arithmetic, remove+invalidate: set the expiry to expiry_s
inline constexpr std::uint16_t vivify =
    1 << 1;  // get, arithmetic: on a miss create an item that expires at vivify_expiry_s
inline constexpr std::uint16_t recache = 1 << 2;      // get: win when the remaining time is below recache_ttl_s
inline constexpr std::uint16_t no_bump = 1 << 3;      // get: do not change the access bits
inline constexpr std::uint16_t compare_cas = 1 << 4;  // store, remove, arithmetic: only if the item's CAS id is `cas`
inline constexpr std::uint16_t invalidate =
    1 << 5;  // store: an older `cas` stores, marked stale; remove: mark stale with a new CAS id
inline constexpr std::uint16_t decrement = 1 << 6;        // arithmetic
inline constexpr std::uint16_t caller_compares = 1 << 6;  // get, a plain read: KC need not (Mega-KV 8.1 `getk`)
// store (set, replace, without invalidate), remove (likewise): the result is the item that was displaced
// (outcome::displaced). The store goes beside it, and leaves it if refused.
inline constexpr std::uint16_t returns_old = 1 << 6;
inline constexpr std::uint16_t binary_key = 1 << 7;  // the key came in base64
inline constexpr std::uint16_t prefilled =
    1 << 8;  // store: the item is already in the heap, at the batch's column `filled` (large values)
inline constexpr std::uint16_t meta = 1 << 9;  // meta protocol: serves stale/win semantics (a text get ignores them)
inline constexpr std::uint16_t no_reply = 1 << 10;      // noreply, or q: for the response writer
inline constexpr std::uint16_t no_value = 1 << 11;      // get: the value is not wanted (mg without v), RD is skipped
inline constexpr std::uint16_t last_of_line = 1 << 12;  // get with several keys: the line's end (END) follows this one
// get: recache is decided by the expiry before this query's touch.
inline constexpr std::uint16_t recache_first = 1 << 13;
// store with compare_cas: a refusal also removes the key's item (memcached's binary set).
inline constexpr std::uint16_t refusal_removes = 1 << 13;
// nothing, remove: replaces a store that the parser refused, and counts as one: too large; bad data block; or (both)
// out of memory.
inline constexpr std::uint16_t store_too_large = 1 << 14;
inline constexpr std::uint16_t store_bad_block = 1 << 15;
inline constexpr std::uint16_t store_no_memory = store_too_large | store_bad_block;
}  // namespace option

enum class Opcode : std::uint8_t {
  nothing,     // answered without the store: an error line, mn, a skipped query
  get,         // options touch, vivify, recache
  store,       // StoreMode in `mode`
  remove,      // option invalidate marks stale instead
  arithmetic,  // `delta`; option decrement; with option vivify `value` is the initial number's text
  touch,
  debug,    // me
  control,  // executed alone, between strips, by the owner of the batch: flush_all, stats, ...
};

enum class StoreMode : std::uint8_t { set, add, replace, append, prepend };

// The slot that MM prepares: none; for an item made from the query alone; for a changed copy of the present item.
enum class SlotNeed : std::uint8_t { none, item, change };

struct Operation {
  bool has_key = false;
  bool is_access = false;  // the key counts as requested (hot keys)
  SlotNeed slot_need = SlotNeed::none;
  std::uint16_t slot_options = 0;  // the slot is needed only with one of these options; 0: always
};

// By Opcode.
inline constexpr std::array<Operation, 8> operations = {{
    /* nothing    */ {},
    /* get        */
    {.has_key = true, .is_access = true, .slot_need = SlotNeed::change, .slot_options = option::vivify},
    /* store      */ {.has_key = true, .is_access = true, .slot_need = SlotNeed::item},
    /* remove     */
    {.has_key = true, .is_access = true, .slot_need = SlotNeed::change, .slot_options = option::invalidate},
    /* arithmetic */ {.has_key = true, .is_access = true, .slot_need = SlotNeed::change},
    /* touch      */ {.has_key = true, .is_access = true},
    /* debug      */ {.has_key = true},
    /* control    */ {},
}};
static_assert(operations.size() == static_cast<std::size_t>(Opcode::control) + 1);

// The syntax behind the command's name, which selects the parser function.
enum class Form : std::uint8_t {
  none,            // no command
  retrieve,        // <key>*
  retrieve_touch,  // <exptime> <key>*
  update,          // <key> <flags> <exptime> <bytes> [noreply], the value; with option compare_cas <cas> behind <bytes>
  remove,          // <key> [0] [noreply]
  arithmetic,      // <key> <delta> [noreply]
  touch,           // <key> <exptime> [noreply]
  meta_get,
  meta_set,
  meta_delete,
  meta_arithmetic,
  meta_debug,
  meta_noop,
  meta_range,
  flush,      // [delay] [noreply]
  verbosity,  // <level> [noreply]
  version,
  quit,
  stats,         // read when it is executed (codec/control.cpp)
  certificates,  // [noreply]
  administer,    // read when it is executed (codec/admin.cpp)
  config,        // get <key>; set <key> <flags> <bytes> [noreply], the value; delete <key> [noreply]
};

// Commands of the text and meta protocols; a binary request counts as the equivalent one. Commands up to `other` are
// measured separately (observe/latency.hpp), all that follow it as `other`.
//
// X(Command, name on the wire and in statistics, form, and of its queries, beside what the line itself asks for:
// opcode, mode, options, whether the reply to a retrieval has the CAS id)
// clang-format off
#define TD_COMMANDS(X) \
  X(get, "get", Form::retrieve, Opcode::get) \
  X(gets, "gets", Form::retrieve, Opcode::get, {}, 0, true) \
  X(gat, "gat", Form::retrieve_touch, Opcode::get, {}, option::touch) \
  X(gats, "gats", Form::retrieve_touch, Opcode::get, {}, option::touch, true) \
  X(set, "set", Form::update, Opcode::store, StoreMode::set) \
  X(add, "add", Form::update, Opcode::store, StoreMode::add) \
  X(replace, "replace", Form::update, Opcode::store, StoreMode::replace) \
  X(append, "append", Form::update, Opcode::store, StoreMode::append) \
  X(prepend, "prepend", Form::update, Opcode::store, StoreMode::prepend) \
  X(cas, "cas", Form::update, Opcode::store, StoreMode::set, option::compare_cas) \
  X(remove, "delete", Form::remove, Opcode::remove) \
  X(incr, "incr", Form::arithmetic, Opcode::arithmetic) \
  X(decr, "decr", Form::arithmetic, Opcode::arithmetic, {}, option::decrement) \
  X(touch, "touch", Form::touch, Opcode::touch) \
  X(mg, "mg", Form::meta_get, Opcode::get, {}, option::meta) \
  X(ms, "ms", Form::meta_set, Opcode::store, {}, option::meta) \
  X(md, "md", Form::meta_delete, Opcode::remove, {}, option::meta) \
  X(ma, "ma", Form::meta_arithmetic, Opcode::arithmetic, {}, option::meta) \
  X(other, "other", Form::none) \
  X(bget, "bget", Form::retrieve, Opcode::get) /* memcached's old name of get */ \
  X(me, "me", Form::meta_debug, Opcode::debug, {}, option::meta) \
  X(mn, "mn", Form::meta_noop) \
  X(mr, "mr", Form::meta_range) /* Tandem's own, as is the next */ \
  X(mx, "mx", Form::meta_range) \
  X(flush_all, "flush_all", Form::flush) \
  X(stats, "stats", Form::stats) \
  X(version, "version", Form::version) \
  X(verbosity, "verbosity", Form::verbosity) \
  X(quit, "quit", Form::quit) \
  X(refresh_certs, "refresh_certs", Form::certificates) \
  X(slabs, "slabs", Form::administer) \
  X(lru, "lru", Form::administer) \
  X(lru_crawler, "lru_crawler", Form::administer) \
  X(watch, "watch", Form::administer) \
  X(cache_memlimit, "cache_memlimit", Form::administer) \
  X(shutdown, "shutdown", Form::administer) \
  X(config, "config", Form::config) /* of ElastiCache */ \
  TD_DEBUG_COMMANDS(X)
#ifdef TANDEM_DEBUG_COMMANDS
#define TD_DEBUG_COMMANDS(X) \
  X(debugtime, "debugtime", Form::administer) \
  X(debugitem, "debugitem", Form::administer)
#else
#define TD_DEBUG_COMMANDS(X)
#endif

#define TD_X(command, ...) command,
enum class Command : std::uint8_t { TD_COMMANDS(TD_X) };
#undef TD_X
// clang-format on

struct CommandRow {
  Command command;
  std::string_view name;
  Form form;
  Opcode opcode = Opcode::control;
  StoreMode mode = StoreMode::set;
  std::uint16_t options = 0;
  bool with_cas = false;
};

// By Command.
#define TD_X(command, ...) CommandRow{Command::command, __VA_ARGS__},
inline constexpr CommandRow commands[] = {TD_COMMANDS(TD_X)};
#undef TD_X

namespace detail {

// Rows by the first letter of their names: those of letter l are rows[first[l]] to rows[first[l + 1] - 1].
struct CommandsByLetter {
  std::array<std::uint8_t, std::size(commands)> rows{};
  std::array<std::uint8_t, 27> first{};
};
inline constexpr CommandsByLetter commands_by_letter = [] {
  CommandsByLetter all;
  std::uint8_t count = 0;
  for (std::size_t letter = 0; letter < 26; ++letter) {
    all.first[letter] = count;
    for (std::size_t i = 0; i < std::size(commands); ++i) {
      const CommandRow& row = commands[i];
      if (row.form == Form::none || row.name[0] != static_cast<char>('a' + letter)) continue;
      all.rows[count++] = static_cast<std::uint8_t>(i);
    }
  }
  all.first[26] = count;
  return all;
}();

}  // namespace detail

constexpr const CommandRow& row_of(Command c) noexcept { return commands[static_cast<std::size_t>(c)]; }
constexpr std::string_view name_of(Command c) noexcept { return row_of(c).name; }

// The command of that name; the row of `other` if none has it.
constexpr const CommandRow& find_command(std::string_view name) noexcept {
  const std::size_t letter = name.empty() ? 26 : static_cast<std::size_t>(static_cast<unsigned char>(name[0])) - 'a';
  if (letter >= 26) return row_of(Command::other);
  const auto& all = detail::commands_by_letter;
  for (std::size_t i = all.first[letter]; i < all.first[letter + 1]; ++i) {
    if (commands[all.rows[i]].name == name) return commands[all.rows[i]];
  }
  return row_of(Command::other);
}

// The text protocol's store of that mode, without a CAS id.
constexpr Command update_of(StoreMode mode) noexcept {
  for (const CommandRow& row : commands) {
    if (row.form == Form::update && row.mode == mode && row.options == 0) return row.command;
  }
  return Command::other;
}

// Those measured separately, and `other`.
inline constexpr std::size_t command_count = static_cast<std::size_t>(Command::other) + 1;
inline constexpr std::array<std::string_view, command_count> command_names = [] {
  std::array<std::string_view, command_count> names;
  for (std::size_t i = 0; i < command_count; ++i) names[i] = commands[i].name;
  return names;
}();

}  // namespace tandem
