// The table of commands: every row is found by its name alone and parsed by its form, and its queries are measured
// under it.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "codec/command.hpp"
#include "codec/parse_harness.hpp"

namespace tandem::codec {
namespace {

// A request of each form that makes queries of the store.
std::optional<std::string> line_of(const CommandRow& row) {
  const std::string name(row.name);
  switch (row.form) {
    case Form::retrieve:
    case Form::meta_get:
    case Form::meta_delete:
    case Form::meta_arithmetic:
    case Form::meta_debug:
    case Form::remove:
      return name + " key\r\n";
    case Form::retrieve_touch:
      return name + " 100 key\r\n";
    case Form::update:
      return name + " key 1 0 3" + (row.options == option::compare_cas ? " 9" : "") + "\r\nabc\r\n";
    case Form::arithmetic:
      return name + " key 5\r\n";
    case Form::touch:
      return name + " key 100\r\n";
    case Form::meta_set:
      return name + " key 3\r\nabc\r\n";
    default:
      return std::nullopt;
  }
}

// Calls check(query) with each query of the input.
template <class Check>
void parse(std::string_view input, const Check& check) {
  ParseHarness harness(ProtocolOptions{});
  harness.on_batch = [&check](Parser&, Batch& batch, const char*, std::size_t) {
    for (std::uint32_t i = 0; i < batch.size(); ++i) check(batch.query(i));
  };
  harness.offer(input);
}

TEST(Commands, AreFoundByTheirWholeNameAlone) {
  for (const CommandRow& row : commands) {
    if (row.form == Form::none) continue;
    EXPECT_EQ(find_command(row.name).command, row.command) << row.name;
    std::string upper(row.name);
    upper[0] = static_cast<char>(upper[0] - 'a' + 'A');
    for (const std::string& other : {std::string(row.name) + "x", "x" + std::string(row.name), upper})
      EXPECT_EQ(find_command(other).command, Command::other) << other;
  }
  for (const char* other : {"", "other", "{", "\xe9", "m", "ge"})
    EXPECT_EQ(find_command(other).command, Command::other) << other;
}

TEST(Commands, AreMeasuredUnderTheirOwnNames) {
  int made = 0;
  for (const CommandRow& row : commands) {
    const std::optional<std::string> line = line_of(row);
    if (!line) continue;
    Command expected = static_cast<std::size_t>(row.command) < command_count ? row.command : Command::other;
    if (row.command == Command::bget) expected = Command::get;
    int queries = 0;
    parse(*line, [&](const Query& q) {
      EXPECT_EQ(q.opcode, row.opcode) << *line;
      EXPECT_EQ(command_of(q), expected) << *line;
      EXPECT_TRUE(row.form != Form::update || q.mode == row.mode) << *line;
      EXPECT_EQ(q.options & row.options, row.options) << *line;
      ++queries;
    });
    EXPECT_EQ(queries, 1) << *line;
    ++made;
  }
  EXPECT_EQ(made, 20);
}

TEST(Commands, OptionsOfALineDoNotChangeWhatItIsMeasuredAs) {
  parse("mg key T30 N20 R10 q k O1 v\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::mg); });
  parse("ms key 1 MA C5 I\r\nx\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::ms); });
  parse("md key I T30\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::md); });
  parse("ma key MD N30\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::ma); });
  parse("decr key 1 noreply\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::decr); });
  parse("get a b c\r\n", [](const Query& q) { EXPECT_EQ(command_of(q), Command::get); });
}

TEST(Commands, ASlotIsNeededByWhatMayWriteAnItem) {
  const auto need = [](std::string_view input) {
    SlotNeed found = SlotNeed::none;
    parse(input, [&found](const Query& q) { found = q.slot_need(); });
    return found;
  };
  for (const char* input : {"get a\r\n", "gat 1 a\r\n", "delete a\r\n", "touch a 1\r\n", "mg a v\r\n", "md a\r\n",
                            "me a\r\n", "flush_all\r\n", "stats\r\n", "nonsense\r\n"})
    EXPECT_EQ(need(input), SlotNeed::none) << input;
  for (const char* input : {"set a 0 0 1\r\nx\r\n", "add a 0 0 1\r\nx\r\n", "replace a 0 0 1\r\nx\r\n",
                            "cas a 0 0 1 7\r\nx\r\n", "ms a 1\r\nx\r\n", "ms a 1 I C1\r\nx\r\n"})
    EXPECT_EQ(need(input), SlotNeed::item) << input;
  for (const char* input : {"append a 0 0 1\r\nx\r\n", "prepend a 0 0 1\r\nx\r\n", "ms a 1 MA\r\nx\r\n", "incr a 1\r\n",
                            "decr a 1\r\n", "ma a\r\n", "mg a N30 v\r\n", "md a I\r\n"})
    EXPECT_EQ(need(input), SlotNeed::change) << input;
}

}  // namespace
}  // namespace tandem::codec
