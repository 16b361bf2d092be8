#include "base/memory_reserve.hpp"

#include <gtest/gtest.h>

#include <new>

namespace tandem {
namespace {

TEST(MemoryReserve, IsFreedBlockByBlockAndComesBack) {
  hold_memory_reserve();
  EXPECT_EQ(memory_reserve_missing(), 0u);
  EXPECT_EQ(std::get_new_handler(), free_memory_reserve);
  unsigned freed = 0;
  bool is_empty = false;
  try {
    for (; freed < 1000; ++freed) free_memory_reserve();
  } catch (const std::bad_alloc&) {
    is_empty = true;
  }
  EXPECT_TRUE(is_empty);
  EXPECT_GT(freed, 0u);
  EXPECT_LT(freed, 1000u);
  EXPECT_EQ(memory_reserve_missing(), freed);
  EXPECT_TRUE(refill_memory_reserve());
  EXPECT_EQ(memory_reserve_missing(), 0u);
  EXPECT_NO_THROW(free_memory_reserve());
  EXPECT_EQ(memory_reserve_missing(), 1u);
  EXPECT_TRUE(refill_memory_reserve());
  std::set_new_handler(nullptr);
}

}  // namespace
}  // namespace tandem
