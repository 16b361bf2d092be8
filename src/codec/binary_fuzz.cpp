// The binary protocol and authentication, with any bytes, cuts and batch size: the queries are those of the whole input
// through a large batch, no client without credentials makes a query that reaches the store, and the parser can return
// to every unanswered query.
#include <cstdint>
#include <memory>
#include <string_view>

#include "codec/binary.hpp"
#include "codec/parse_harness.hpp"

namespace {

using tandem::Credentials;
using tandem::Opcode;
using tandem::ProtocolOptions;
using tandem::codec::ParseHarness;

// The first bytes choose, the rest is the input.
struct Choices {
  bool sasl, auth_file, forces_binary, refuses_large;
  std::uint32_t batch_capacity;
  std::size_t cuts[4];
};
constexpr std::size_t choice_bytes = 6;

Choices choose(const std::uint8_t* data) {
  return {(data[0] & 1) != 0, (data[0] & 2) != 0, (data[0] & 4) != 0,
          (data[0] & 8) != 0, data[1] % 40u + 1,  {data[2], data[3], data[4], data[5]}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<Credentials> sasl = Credentials::from_text("u:p\n", Credentials::Format::sasl_file);
  static const std::unique_ptr<Credentials> file = Credentials::from_text("u:p\n", Credentials::Format::auth_file);
  if (size < choice_bytes) return 0;
  const Choices choices = choose(data);
  std::string input(reinterpret_cast<const char*>(data) + choice_bytes, size - choice_bytes);
  if (choices.forces_binary && !input.empty()) input[0] = static_cast<char>(tandem::codec::binary::request_magic);

  ProtocolOptions options;
  options.item_bytes_max = 2000;
  options.ordered = true;
  options.config = tandem::ConfigAccess::write;
  options.large_value_bytes = 64;
  options.line_bytes_max = 1u << 30;  // whether a line is too long depends on how much of it has arrived
  if (choices.sasl) options.sasl = sasl.get();
  if (choices.auth_file) options.auth_file = file.get();

  // Before authentication, queries only carry a reply.
  const bool has_credentials = input.find(std::string_view("u\0p", 3)) != std::string::npos ||
                               (input.find('u') != std::string::npos && input.find('p') != std::string::npos);
  const auto check = [&](tandem::Parser&, tandem::Batch& batch, const char*, std::size_t) {
    if (has_credentials || (!choices.sasl && !choices.auth_file)) return;
    for (std::uint32_t i = 0; i < batch.size(); ++i) TD_ASSERT(batch.query(i).opcode == Opcode::nothing);
  };

  ParseHarness whole(options, 4096);
  whole.refuses_large = choices.refuses_large;
  whole.on_batch = check;
  whole.offer(input);

  ParseHarness parts(options, choices.batch_capacity);
  parts.refuses_large = choices.refuses_large;
  parts.on_batch = [&](tandem::Parser& parser, tandem::Batch& batch, const char* begin, std::size_t bytes) {
    check(parser, batch, begin, bytes);
  };
  std::size_t at = 0;
  for (std::size_t i = 0; at < input.size() && !parts.closed(); ++i) {
    const std::size_t bytes = i % 8 == 7 ? 1 : choices.cuts[i % 4];
    parts.offer(std::string_view(input).substr(at, bytes));
    at += std::min(bytes, input.size() - at);
  }
  // A value that was whole in one input arrives as a large one in the other: refused only there.
  if (choices.refuses_large) return 0;
  TD_ASSERT(parts.queries == whole.queries);
  TD_ASSERT(parts.closed() || parts.kept_bytes() == whole.kept_bytes());
  return 0;
}
