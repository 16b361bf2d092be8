// memcached's binary protocol as bytes: the packets' header, and the body that each opcode expects.
//
// All numbers are big-endian. A packet is a header, then extras, key and value, together body_bytes:
//
//   byte   0       1        2          4         5           6          8            12       16        24
//          | magic | opcode | key      | extras  | data type | reserved | body       | opaque | CAS id  |
//          |       |        | bytes    | bytes   |           | / status | bytes      |        |         |
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/platform.hpp"
#include "query/opcode.hpp"

namespace tandem::codec::binary {

inline constexpr std::uint8_t request_magic = 0x80, response_magic = 0x81;

namespace at {
inline constexpr std::size_t magic = 0, opcode = 1, key_bytes = 2, extras_bytes = 4, data_type = 5, status = 6,
                             body_bytes = 8, opaque = 12, cas = 16, end = 24;
static_assert(opcode == magic + 1 && key_bytes == opcode + 1 && extras_bytes == key_bytes + 2 &&
              data_type == extras_bytes + 1 && status == data_type + 1 && body_bytes == status + 2 &&
              opaque == body_bytes + 4 && cas == opaque + 4 && end == cas + 8);
}  // namespace at
inline constexpr std::size_t header_bytes = at::end;
// Extras: the item's client flags in a reply to a hit; the fields of a touch, a store and an incr in requests.
inline constexpr std::size_t flags_bytes = 4, expiry_bytes = 4, store_extras_bytes = 8, arithmetic_extras_bytes = 20;
// Of a range request, before the range's end: |bytes of the end, 2|reserved, 1|range_flag, 1|items at most, 4|.
inline constexpr std::size_t range_extras_bytes = 8;
inline constexpr std::size_t extras_bytes_max = arithmetic_extras_bytes;
inline constexpr std::size_t number_bytes = 8;  // an incr's answer

namespace range_flag {
inline constexpr std::uint8_t begin_inclusive = 1 << 0, end_inclusive = 1 << 1;
}  // namespace range_flag

template <class T>
TD_INLINE T read(const char* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (std::endian::native == std::endian::big) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}
template <class T>
TD_INLINE void write(char* p, T value) noexcept {
  const T swapped = read<T>(reinterpret_cast<const char*>(&value));  // an involution
  std::memcpy(p, &swapped, sizeof swapped);
}

enum class Status : std::uint16_t {
  ok = 0x00,
  not_found = 0x01,
  exists = 0x02,
  too_large = 0x03,
  invalid = 0x04,
  not_stored = 0x05,
  not_a_number = 0x06,
  auth_error = 0x20,
  auth_continue = 0x21,
  unknown_command = 0x81,
  no_memory = 0x82,
};

// memcached 1.6.18's texts in the body of an error.
namespace text {
inline constexpr std::string_view not_found = "Not found";
inline constexpr std::string_view exists = "Data exists for key.";
inline constexpr std::string_view too_large = "Too large.";
inline constexpr std::string_view invalid = "Invalid arguments";
inline constexpr std::string_view not_stored = "Not stored.";
inline constexpr std::string_view not_a_number = "Non-numeric server-side value for incr or decr";
inline constexpr std::string_view auth_error = "Auth failure.";
inline constexpr std::string_view unknown_command = "Unknown command";
inline constexpr std::string_view no_memory = "Out of memory";
inline constexpr std::string_view config_read_only = "config is read-only here";
inline constexpr std::string_view no_memory_store = "Out of memory allocating item";
inline constexpr std::string_view no_memory_new = "Out of memory allocating new item";
inline constexpr std::string_view no_memory_number = "Out of memory incrementing value";
inline constexpr std::string_view authenticated = "Authenticated";
inline constexpr std::string_view mechanisms = "PLAIN";
}  // namespace text

// Form of the body behind an opcode's header, each read by a function of PacketParser.
enum class Form : std::uint8_t {
  unknown,
  // Some servers lack the next two.
  range,
  config,
  get,
  touch,
  store,
  exchange,  // as store
  remove,
  arithmetic,
  quit,
  flush,
  noop,
  version,
  stat,
  sasl_list,
  sasl_auth,
  sasl_step,
};

enum class Key : std::uint8_t { none, one, optional };

// An opcode's request format, operation and reply.
struct Rule {
  Form form = Form::unknown;
  Key key = Key::none;
  std::uint8_t extras_bytes = 0;
  bool has_value = false;  // a value follows the key
  bool quiet = false;      // a get: no reply to a miss; any other: no reply to a success
  bool with_key = false;   // the answer repeats the key
  bool open = false;       // answered without authentication
  StoreMode mode = StoreMode::set;
  std::uint16_t options = 0;  // of the query; of a quiet one, but for a get, with no_reply
};

namespace opcode {
inline constexpr std::uint8_t get = 0x00, set = 0x01, add = 0x02, replace = 0x03, remove = 0x04, increment = 0x05,
                              decrement = 0x06, quit = 0x07, flush = 0x08, getq = 0x09, noop = 0x0a, version = 0x0b,
                              getk = 0x0c, getkq = 0x0d, append = 0x0e, prepend = 0x0f, stat = 0x10, setq = 0x11,
                              addq = 0x12, replaceq = 0x13, removeq = 0x14, incrementq = 0x15, decrementq = 0x16,
                              quitq = 0x17, flushq = 0x18, appendq = 0x19, prependq = 0x1a, verbosity = 0x1b,
                              touch = 0x1c, gat = 0x1d, gatq = 0x1e, sasl_list = 0x20, sasl_auth = 0x21,
                              sasl_step = 0x22, gatk = 0x23, gatkq = 0x24, rget = 0x30, rdelete = 0x37, rdeleteq = 0x38,
                              config_get = 0x60, config_getq = 0x61, config_getk = 0x62, config_getkq = 0x63,
                              config_set = 0x64, config_setq = 0x65, config_delete = 0x66, config_deleteq = 0x67,
                              config_list = 0x68, exchange = 0x70, take = 0x71, exchangeq = 0x72, takeq = 0x73;
}  // namespace opcode

inline constexpr std::size_t rule_count = opcode::takeq + 1;
inline constexpr std::array<Rule, rule_count> rules = [] {
  std::array<Rule, rule_count> all{};
  namespace o = opcode;
  // The opcode's row, and that of its quiet form.
  const auto put = [&all](std::uint8_t opcode, std::uint8_t quiet, Rule rule) {
    all[opcode] = rule;
    rule.quiet = true;
    if (rule.form != Form::get) rule.options |= option::no_reply;
    all[quiet] = rule;
  };
  const auto store = [](StoreMode mode) {
    const bool adds = mode == StoreMode::append || mode == StoreMode::prepend;
    const std::uint8_t extras_bytes = adds ? 0 : store_extras_bytes;
    return Rule{.form = Form::store, .key = Key::one, .extras_bytes = extras_bytes, .has_value = true, .mode = mode};
  };
  const auto gat = [](bool with_key) {
    return Rule{.form = Form::get,
                .key = Key::one,
                .extras_bytes = expiry_bytes,
                .with_key = with_key,
                .options = option::touch};
  };
  const auto exchange = [&store] {
    Rule rule = store(StoreMode::set);
    rule.form = Form::exchange;
    rule.options = option::returns_old;
    return rule;
  };
  const auto arithmetic = [](std::uint16_t options) {
    return Rule{.form = Form::arithmetic, .key = Key::one, .extras_bytes = arithmetic_extras_bytes, .options = options};
  };
  put(o::get, o::getq, {.form = Form::get, .key = Key::one});
  put(o::getk, o::getkq, {.form = Form::get, .key = Key::one, .with_key = true});
  put(o::gat, o::gatq, gat(false));
  put(o::gatk, o::gatkq, gat(true));
  all[o::touch] = {.form = Form::touch, .key = Key::one, .extras_bytes = expiry_bytes};
  put(o::set, o::setq, store(StoreMode::set));
  put(o::add, o::addq, store(StoreMode::add));
  put(o::replace, o::replaceq, store(StoreMode::replace));
  put(o::append, o::appendq, store(StoreMode::append));
  put(o::prepend, o::prependq, store(StoreMode::prepend));
  put(o::remove, o::removeq, {.form = Form::remove, .key = Key::one});
  put(o::exchange, o::exchangeq, exchange());
  put(o::take, o::takeq, {.form = Form::remove, .key = Key::one, .options = option::returns_old});
  put(o::increment, o::incrementq, arithmetic(0));
  put(o::decrement, o::decrementq, arithmetic(option::decrement));
  put(o::quit, o::quitq, {.form = Form::quit});
  put(o::flush, o::flushq, {.form = Form::flush, .extras_bytes = expiry_bytes});  // extras may be missing
  all[o::noop] = {.form = Form::noop};
  all[o::version] = {.form = Form::version, .open = true};
  all[o::stat] = {.form = Form::stat, .key = Key::optional};
  const Rule range{.form = Form::range, .key = Key::optional, .extras_bytes = range_extras_bytes};  // extras: at least
  all[o::rget] = range;
  put(o::rdelete, o::rdeleteq, range);
  // memcached has none in 0x60 to 0x68; those of AWS's server and clients.
  put(o::config_get, o::config_getq, {.form = Form::config, .key = Key::one});
  put(o::config_getk, o::config_getkq, {.form = Form::config, .key = Key::one, .with_key = true});
  put(o::config_set, o::config_setq,
      {.form = Form::config, .key = Key::one, .extras_bytes = flags_bytes, .has_value = true});
  put(o::config_delete, o::config_deleteq, {.form = Form::config, .key = Key::one});
  all[o::config_list] = {.form = Form::config};
  all[o::sasl_list] = {.form = Form::sasl_list, .open = true};
  all[o::sasl_auth] = {.form = Form::sasl_auth, .key = Key::one, .has_value = true, .open = true};
  all[o::sasl_step] = {.form = Form::sasl_step, .key = Key::one, .has_value = true, .open = true};
  return all;
}();
// 0x1b (verbosity) is in memcached's protocol document and not in memcached 1.6.18.
static_assert(rules[opcode::verbosity].form == Form::unknown && rules[0x1f].form == Form::unknown);
static_assert(sizeof(Rule) == 10);

// A request's header, without the fields that only the reply needs, which reads them from the packet.
struct Request {
  std::uint32_t body_bytes;
  std::uint16_t key_bytes;
  std::uint8_t opcode, extras_bytes;

  static Request read(const char* p) noexcept {
    return {binary::read<std::uint32_t>(p + at::body_bytes), binary::read<std::uint16_t>(p + at::key_bytes),
            binary::read<std::uint8_t>(p + at::opcode), binary::read<std::uint8_t>(p + at::extras_bytes)};
  }
  // Of extras and key, which precede the value.
  std::uint32_t before_value_bytes() const noexcept { return std::uint32_t{key_bytes} + extras_bytes; }
  std::uint32_t value_bytes() const noexcept { return body_bytes - before_value_bytes(); }
  bool fits(const Rule& rule) const noexcept {
    const bool good_key = key_bytes == 0 ? rule.key != Key::one : rule.key != Key::none;
    const bool good_extras = extras_bytes == rule.extras_bytes || (rule.form == Form::flush && extras_bytes == 0) ||
                             (rule.form == Form::range && extras_bytes > rule.extras_bytes);
    return good_key && good_extras && (rule.has_value || body_bytes == before_value_bytes());
  }
};

inline const Rule& rule_of(std::uint8_t opcode) noexcept {
  static constexpr Rule unknown;
  return opcode < rule_count ? rules[opcode] : unknown;
}

}  // namespace tandem::codec::binary
