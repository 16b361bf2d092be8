// IN, the reading half: what fingerprint() and the two passes of search leave in the batch's columns.
#include "task/task_fixture.hpp"

namespace tandem {
namespace {

using IndexOperation = TaskTest;

TEST_F(IndexOperation, HashesEveryKeyOfTheStrip) {
  add(Opcode::get, "a");
  add(Opcode::get, "another key");
  const StripState state = look();
  EXPECT_EQ(state.strip.size(), 2u);
  EXPECT_EQ(batch_.fingerprints()[0], fingerprint_of("a", shared_.hash_seed));
  EXPECT_EQ(batch_.fingerprints()[1], fingerprint_of("another key", shared_.hash_seed));
  EXPECT_NE(batch_.fingerprints()[0].signature, batch_.fingerprints()[1].signature);
}

TEST_F(IndexOperation, OnlyGetsThatChangeNothingAreAPlainStrip) {
  const auto is_plain = [this](Opcode opcode, std::uint16_t options) {
    clear();
    add(Opcode::get, "first");
    add(opcode, "k", "1", options);
    return look().plain_reads;
  };
  EXPECT_TRUE(is_plain(Opcode::get, 0));
  EXPECT_TRUE(is_plain(Opcode::get, option::no_bump | option::no_value | option::last_of_line | option::meta));
  EXPECT_FALSE(is_plain(Opcode::get, option::touch));
  EXPECT_FALSE(is_plain(Opcode::get, option::vivify));
  EXPECT_FALSE(is_plain(Opcode::get, option::recache));
  for (const Opcode opcode : {Opcode::store, Opcode::remove, Opcode::arithmetic, Opcode::touch, Opcode::nothing})
    EXPECT_FALSE(is_plain(opcode, 0)) << static_cast<int>(opcode);
}

TEST_F(IndexOperation, TheStripEndsBeforeAControlQuery) {
  add(Opcode::get, "a");
  add(Opcode::control, "");
  add(Opcode::store, "b", "1");
  StripState state = look();
  EXPECT_EQ(state.strip.end, 1u);
  EXPECT_TRUE(state.plain_reads);  // the store behind it is not looked at

  clear();
  add(Opcode::control, "");
  EXPECT_EQ(look().strip.size(), 0u);
}

TEST_F(IndexOperation, SearchFindsTheCandidatesOfPresentKeysAlone) {
  for (unsigned i = 0; i < 200; ++i) ASSERT_EQ(set("key" + std::to_string(i), "value"), Status::stored);
  for (unsigned i = 0; i < 200; i += 4) {
    clear();
    for (unsigned k = i; k < i + 4; ++k) {
      add(Opcode::get, "key" + std::to_string(k));
      add(Opcode::get, "absent" + std::to_string(k));
    }
    StripState state = look();
    context_.enter();
    search(state);
    for (std::uint32_t q = 0; q < 8; q += 2) {
      const Location found = batch_.locations()[q];
      ASSERT_NE(found, no_location) << batch_.query(q).key_view();
      EXPECT_EQ(heap_.at(found), find(batch_.query(q).key_view()));
      EXPECT_EQ(batch_.locations()[q + 1], no_location) << batch_.query(q + 1).key_view();
    }
    context_.epoch.exit();
  }
}

}  // namespace
}  // namespace tandem
