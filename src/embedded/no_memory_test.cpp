// Calls with a result for which the process has no memory: they throw std::bad_alloc once all is done, and the store
// serves on.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "base/platform.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

// The process may map nothing more, and has used up what malloc has.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    const rlimit none{pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), before_.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    while (taken_count_ < taken_.size()) {
      void* const block = std::malloc(block_bytes);
      if (block == nullptr) break;
      taken_[taken_count_++] = block;
    }
  }
  ~NoMoreMemory() {
    for (std::size_t i = 0; i < taken_count_; ++i) std::free(taken_[i]);
    setrlimit(RLIMIT_AS, &before_);
  }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  static constexpr std::size_t block_bytes = 100'000;  // the least value has more
  rlimit before_{};
  std::array<void*, 10'000> taken_;
  std::size_t taken_count_ = 0;
};

// By the bytes of the value: one that the lane answers, and a huge one.
class NoMemory : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (TD_ADDRESS_SANITIZER != 0 || TD_THREAD_SANITIZER != 0) GTEST_SKIP() << "a sanitizer maps memory of its own";
    session_.set("key", value_);
  }

  // The first session is in no epoch, so that memory comes back, and its next call runs none of its requests again.
  void expect_served() {
    const std::string some(100'000, 's');
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(other_.set("s" + std::to_string(i), some), Code::stored) << i;
    other_.set("key", "precious");
    session_.touch("unrelated", 1000);
    EXPECT_EQ(other_.get("key"), "precious");
  }

  const std::string value_ = std::string(GetParam(), 'v');
  Store store_{{.memory_bytes = std::uint64_t{32} << 20, .item_bytes_max = std::uint64_t{8} << 20}};
  Session session_ = store_.session(), other_ = store_.session();
  Value old_;
};

TEST_P(NoMemory, ForAGet) {
  {
    const NoMoreMemory none;
    EXPECT_THROW(session_.get("key"), std::bad_alloc);
    EXPECT_THROW(session_.get("key", old_), std::bad_alloc);
  }
  EXPECT_EQ(other_.get("key"), value_);
  expect_served();
}

TEST_P(NoMemory, ForWhatAnExchangeReturns) {
  {
    const NoMoreMemory none;
    EXPECT_THROW(session_.exchange("key", "new", old_), std::bad_alloc);
  }
  EXPECT_EQ(other_.get("key"), "new");
  expect_served();
}

TEST_P(NoMemory, ForWhatATakeReturns) {
  {
    const NoMoreMemory none;
    EXPECT_THROW(session_.take("key", old_), std::bad_alloc);
  }
  EXPECT_EQ(other_.get("key"), std::nullopt);
  expect_served();
}

INSTANTIATE_TEST_SUITE_P(Values, NoMemory, testing::Values(200'000, 4'000'000));

}  // namespace
}  // namespace tandem
