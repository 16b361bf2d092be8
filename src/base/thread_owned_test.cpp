#include "base/thread_owned.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tandem {
namespace {

std::atomic<int> alive{0};

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int value = 0;
};

TEST(ThreadOwned, EachThreadHasItsOwnUntilItEnds) {
  for (int turn = 0; turn < 3; ++turn) {
    std::thread([] {
      ThreadOwned<Counted>::mine().value = 5;
      EXPECT_EQ(ThreadOwned<Counted>::mine().value, 5);
      EXPECT_EQ(alive, 1);
      std::thread([] {
        EXPECT_EQ(ThreadOwned<Counted>::mine().value, 0);
        EXPECT_EQ(alive, 2);
      }).join();
      EXPECT_EQ(alive, 1);
    }).join();
    EXPECT_EQ(alive, 0);
  }
}

struct Refusing {
  Refusing() {
    if (refuses) throw std::bad_alloc();
  }
  inline static bool refuses = true;
};

TEST(ThreadOwned, WhatCouldNotBeMadeIsMadeLater) {
  EXPECT_THROW(ThreadOwned<Refusing>::mine(), std::bad_alloc);
  Refusing::refuses = false;
  Refusing& mine = ThreadOwned<Refusing>::mine();
  EXPECT_EQ(&mine, &ThreadOwned<Refusing>::mine());
}

}  // namespace
}  // namespace tandem
