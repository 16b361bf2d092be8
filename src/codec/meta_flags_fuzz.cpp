// Flags of a meta command from any bytes, and the reply that they request: it has the form of a reply, and returns
// exactly the requested flags, in order.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "codec/base64.hpp"
#include "codec/meta_flags.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "codec/tokens.hpp"

namespace {

using namespace tandem;

constexpr std::string_view command_letters = "gsda";

struct World {
  MemoryBudget budget{std::uint64_t{8} << 20};
  EpochDomain epochs{2};
  Heap heap{{.huge_pages = false}, budget, epochs};
  Clock clock;
  ProtocolOptions options;
  alignas(32) char item_bytes[1024] = {};
};

bool is_displaced(const Query& q, const Result& r) {
  return codec::reply_of(q) == codec::ReplyKind::meta_displaced && (r.outcome & outcome::displaced) != 0;
}

bool is_success(const Query& q, const Result& r) {
  switch (q.opcode) {
    case Opcode::get:
      return r.status == Status::hit;
    case Opcode::arithmetic:
      return r.status == Status::number;
    default:
      return true;  // their flags do not depend on it
  }
}

// The flags of the line that this command returns.
std::string_view returned(const Query& q, const Result& r) {
  if (!is_success(q, r)) return "OkK";
  const bool stores = q.opcode == Opcode::store;
  if (is_displaced(q, r)) return stores ? "GcOk" : "GOk";
  switch (codec::reply_of(q)) {
    case codec::ReplyKind::meta_get:
      return "stcflhOkK";
    case codec::ReplyKind::meta_set:
      return "cOk";
    case codec::ReplyKind::meta_displaced:
      return stores ? "cOk" : "Ok";
    case codec::ReplyKind::meta_arithmetic:
      return "ctOk";
    default:
      return "Ok";
  }
}

void check_key(codec::Tokens& flags, std::string_view flag, const Query& q, const Result& r) {
  const bool of_item = q.opcode == Opcode::get && is_success(q, r);
  const bool binary = of_item ? r.item->binary_key() : q.has(option::binary_key);
  char encoded[512];
  std::string_view key = q.key_view();
  if (binary)
    key = {encoded, static_cast<std::size_t>(codec::base64_encode(encoded, key.data(), key.size()) - encoded)};
  TD_ASSERT(flag[0] == 'k' && flag.substr(1) == key);
  if (binary) TD_ASSERT(flags.next(flag) && flag == "b");
}

void check_flags(std::string_view reply, std::string_view request, const Query& q, const Result& r) {
  codec::Tokens flags(reply.data(), reply.data() + reply.size());
  codec::Tokens asked(request.data(), request.data() + request.size());
  std::string_view flag, wanted;
  bool has_key = false;
  while (asked.next(wanted)) {
    const char letter = wanted[0];
    if (returned(q, r).find(letter) == std::string_view::npos) continue;
    const bool is_key = letter == 'k' || letter == 'K';
    if (is_key && std::exchange(has_key, true)) continue;
    TD_ASSERT(flags.next(flag));
    if (is_key) {
      check_key(flags, flag, q, r);
    } else if (letter == 'O') {
      TD_ASSERT(flag == wanted);
    } else {
      TD_ASSERT(flag[0] == letter && flag.size() > 1 &&
                flag.find_first_not_of("0123456789", flag[1] == '-' ? 2 : 1) == std::string_view::npos);
    }
  }
  constexpr std::pair<std::uint8_t, std::string_view> outcomes[] = {
      {outcome::win_sent, "Z"}, {outcome::stale, "X"}, {outcome::won, "W"}};
  for (const auto& [bit, letter] : outcomes) {
    const bool tells = q.opcode == Opcode::get ? is_success(q, r) : is_displaced(q, r) && bit != outcome::won;
    if (tells && (r.outcome & bit) != 0) TD_ASSERT(flags.next(flag) && flag == letter);
  }
  TD_ASSERT(!flags.next(flag));
}

// `asked`: the flags of the request line.
void check_reply(std::string_view reply, std::string_view asked, const Query& q, const Result& r) {
  if (reply.empty()) {
    TD_ASSERT(q.has(option::no_reply));
    return;
  }
  TD_ASSERT(reply.ends_with("\r\n"));
  if (reply.starts_with("CLIENT_ERROR ") || reply.starts_with("SERVER_ERROR ")) return;
  const std::size_t line_end = reply.find("\r\n");
  std::size_t flags_begin = 2;
  bool asks_value = false;
  codec::Tokens words(asked.data(), asked.data() + asked.size());
  for (std::string_view flag; words.next(flag);) asks_value |= flag[0] == 'v';
  if (reply.starts_with("VA ")) {
    // A value of the length in the reply.
    std::size_t bytes = 0;
    for (flags_begin = 3; reply[flags_begin] >= '0' && reply[flags_begin] <= '9'; ++flags_begin)
      bytes = bytes * 10 + static_cast<std::size_t>(reply[flags_begin] - '0');
    TD_ASSERT(reply.size() == line_end + 2 + bytes + 2);
    TD_ASSERT(q.opcode == Opcode::arithmetic || bytes == r.value_bytes);
    TD_ASSERT(is_displaced(q, r) || (asks_value && (q.opcode == Opcode::get || q.opcode == Opcode::arithmetic)));
  } else {
    TD_ASSERT(!is_displaced(q, r));
    constexpr std::string_view codes[] = {"HD", "EN", "NS", "EX", "NF"};
    bool known = false;
    for (const std::string_view code : codes) known |= reply.starts_with(code);
    TD_ASSERT(known);
    TD_ASSERT(reply.size() < 1000 && reply.size() == line_end + 2);
    TD_ASSERT(!asks_value || !reply.starts_with("HD") || q.opcode == Opcode::store || q.opcode == Opcode::remove);
  }
  check_flags(reply.substr(flags_begin, line_end - flags_begin), asked, q, r);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  world.clock.freeze_for_test(1000);
  if (size < 4) return 0;
  const std::uint8_t command = data[0] % command_letters.size(), status = data[1] % 12, outcome = data[2],
                     shape = data[3];
  const std::string line = std::string("m") + command_letters[command] + " Zm9v " + (command == 1 ? "3 " : "") +
                           std::string(reinterpret_cast<const char*>(data) + 4, size - 4) + "\r\n" +
                           (command == 1 ? "abc\r\n" : "");
  const std::unique_ptr<char[]> exact(new char[line.size()]);
  std::memcpy(exact.get(), line.data(), line.size());

  Parser parser(world.options, world.clock);
  Batch batch(64);
  std::size_t consumed = 0;
  parser.parse(exact.get(), exact.get() + line.size(), batch, consumed);
  if (batch.size() == 0) return 0;
  const Query& q = batch.query(0);
  const codec::ReplyKind reply = codec::reply_of(q);
  if (reply < codec::ReplyKind::meta_get || reply > codec::ReplyKind::meta_arithmetic) return 0;

  // Possible results of the store.
  auto* const item = new (world.item_bytes) Item{};
  item->set_fixed(word::KeyBytes::put(0, q.key_bytes));
  item->set_fixed(word::ValueBytes::put(item->fixed(), shape));
  item->set_fixed(word::HasFlags::put(item->fixed(), shape & 1));
  item->set_fixed(word::BinaryKey::put(item->fixed(), shape >> 1 & 1));
  std::memcpy(item->bytes() + item->key_offset(), q.key, q.key_bytes);
  Result& r = batch.result(0);
  r = {{item},
       std::uint64_t{shape} << 30,
       shape,
       shape,
       static_cast<Status>(status),
       outcome,
       static_cast<std::uint16_t>(item->value_offset())};
  if (q.opcode == Opcode::get && r.status != Status::hit) r.item = nullptr;
  Output out;
  codec::write_reply(batch.query(0), batch.result(0), {world.heap, world.clock, world.options, out});
  std::string_view asked = line;
  asked = asked.substr(0, asked.find('\n'));
  if (asked.ends_with('\r')) asked.remove_suffix(1);
  asked = asked.substr(0, asked.find('\0'));  // where memcached's line ends
  asked.remove_prefix(std::min(asked.size(), std::string_view("mg Zm9v").size() + (command == 1 ? 2 : 0)));
  check_reply({out.data(), out.size()}, asked, q, r);
  return 0;
}
