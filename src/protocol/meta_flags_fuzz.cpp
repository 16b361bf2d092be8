// The flags of a meta command from any bytes, and the reply that they ask for: it has the shape of a reply, and returns
// no flag that was not asked for.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/meta_flags.hpp"
#include "protocol/reply.hpp"
#include "protocol/reply_writer.hpp"

namespace {

using namespace tandem;

constexpr std::string_view commands = "gsda";

struct World {
  MemoryBudget budget{std::uint64_t{8} << 20};
  EpochDomain epochs{2};
  Heap heap{{.huge_pages = false}, budget, epochs};
  Clock clock;
  ProtocolOptions options;
  alignas(32) char item_bytes[1024] = {};
};

void check_reply(std::string_view reply, const Query& q, const Result& r) {
  if (reply.empty()) {
    TD_ASSERT(q.has(option::no_reply));
    return;
  }
  TD_ASSERT(reply.ends_with("\r\n"));
  if (reply.starts_with("CLIENT_ERROR ") || reply.starts_with("SERVER_ERROR ")) return;
  if (reply.starts_with("VA ")) {
    // A value of the length that the reply says.
    const std::size_t line_end = reply.find("\r\n");
    std::size_t bytes = 0;
    for (std::size_t i = 3; reply[i] >= '0' && reply[i] <= '9'; ++i) {
      bytes = bytes * 10 + static_cast<std::size_t>(reply[i] - '0');
    }
    TD_ASSERT(reply.size() == line_end + 2 + bytes + 2);
    TD_ASSERT(q.opcode == Opcode::arithmetic || bytes == r.value_bytes);
  } else {
    constexpr std::string_view codes[] = {"HD", "EN", "NS", "EX", "NF"};
    bool known = false;
    for (const std::string_view code : codes) known |= reply.starts_with(code);
    TD_ASSERT(known);
    TD_ASSERT(reply.size() < 1000);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  world.clock.freeze_for_test(1000);
  if (size < 4) return 0;
  const std::uint8_t command = data[0] % commands.size(), status = data[1] % 12, outcome = data[2], shape = data[3];
  const std::string line = std::string("m") + commands[command] + " Zm9v " + (command == 1 ? "3 " : "") +
                           std::string(reinterpret_cast<const char*>(data) + 4, size - 4) + "\r\n" +
                           (command == 1 ? "abc\r\n" : "");
  const std::unique_ptr<char[]> exact(new char[line.size()]);
  std::memcpy(exact.get(), line.data(), line.size());

  Parser parser(world.options, world.clock);
  Batch batch(64);
  Scratch scratch;
  std::size_t consumed = 0;
  parser.parse(exact.get(), exact.get() + line.size(), batch, scratch, 0, consumed);
  if (batch.size() == 0) return 0;
  const Query& q = batch.query(0);
  const protocol::Reply reply = protocol::reply_of(q);
  if (reply < protocol::Reply::meta_get || reply > protocol::Reply::meta_arithmetic) return 0;

  // What the store could answer.
  auto* const item = new (world.item_bytes) Item{};
  item->fixed_word = word::KeyBytes::put(0, q.key_bytes);
  item->fixed_word = word::ValueBytes::put(item->fixed_word, shape);
  item->fixed_word = word::HasFlags::put(item->fixed_word, shape & 1);
  item->fixed_word = word::BinaryKey::put(item->fixed_word, shape >> 1 & 1);
  std::memcpy(item->bytes() + item->key_offset(), q.key, q.key_bytes);
  Result& r = batch.result(0);
  r = {item,
       std::uint64_t{shape} << 30,
       shape,
       shape,
       static_cast<Status>(status),
       outcome,
       static_cast<std::uint16_t>(item->value_offset())};
  if (q.opcode == Opcode::get && r.status != Status::hit) r.item = nullptr;
  Output out;
  write_replies(batch, 0, 1, world.heap, world.clock, world.options, out);
  check_reply({out.data(), out.size()}, q, r);
  return 0;
}
