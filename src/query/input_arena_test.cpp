#include "query/input_arena.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

bool is_in(const InputArena& arena, const char* p) { return arena.offset_of(p) < arena.bytes(); }

// With room for some of it, and for none.
TEST(InputArena, KeepsWhatWasPlaced) {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{5000}, std::size_t{1} << 20}) {
    InputArena arena(memory);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::pair<char*, std::size_t>> given;
      for (const std::size_t bytes : {1u, 4000u, 100u, 4096u, 5000u, 1u, 100000u, 200u}) {
        char* const at = arena.place(bytes);
        std::memset(at, static_cast<int>(given.size()), bytes);
        given.emplace_back(at, bytes);
      }
      for (std::size_t i = 0; i < given.size(); ++i) {
        for (std::size_t k = 0; k < given[i].second; ++k) ASSERT_EQ(given[i].first[k], static_cast<char>(i));
      }
      EXPECT_EQ(is_in(arena, given[0].first), memory != 0);
      EXPECT_EQ(is_in(arena, given[6].first), memory == std::size_t{1} << 20);
      arena.clear();
      arena.reuse();
    }
  }
}

TEST(InputArena, InputBeginsAtALineBehindWhatWasPlaced) {
  alignas(cache_line_bytes) char memory[1024];
  InputArena arena(memory, sizeof memory);
  EXPECT_EQ(arena.room(), memory);
  arena.take(10);
  char* const placed = arena.place(3);
  EXPECT_EQ(placed, memory + 10);
  EXPECT_TRUE(arena.has_room(1024 - 64));
  EXPECT_FALSE(arena.has_room(1024 - 63));
  EXPECT_EQ(arena.room(), memory + 64);
  arena.take(1024 - 64);
  EXPECT_FALSE(arena.has_room(1));
  EXPECT_TRUE(arena.has_room(0));
  arena.reuse();
  EXPECT_EQ(arena.room(), memory);
}

// clear() is called for each batch, and unparsed input survives it.
TEST(InputArena, ClearingKeepsTheInput) {
  InputArena arena(4096);
  char* const input = arena.room();
  std::memset(input, 'i', 64);
  arena.take(64);
  arena.place(10);
  arena.clear();
  std::memset(arena.place(100), 'x', 100);
  EXPECT_EQ(std::string(input, 64), std::string(64, 'i'));
}

}  // namespace
}  // namespace tandem
