// What the embedded store's interfaces refuse, in the words of their own options, and what their codes tell apart.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "device/cuda/cuda_device.hpp"
#include "engine/engine.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t embedded_bytes = std::uint64_t{16} << 20;

Options embedded_options() {
  Options o;
  o.memory_bytes = embedded_bytes;
  o.item_bytes_max = 1024;
  o.huge_pages = false;
  return o;
}

template <class Error, class Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

std::string refusal_of(const Options& o) {
  return message_of<std::invalid_argument>([&] { const Store store(o); });
}

TEST(Embedded, AnItemThatWouldGrowTooLargeIsToldFromAnAbsentOne) {
  Store store(embedded_options());
  const std::string half(600, 'h');
  for (const auto concatenate : {&Session::append, &Session::prepend}) {
    Session session = store.session();
    EXPECT_EQ((session.*concatenate)("absent", half), Code::not_stored);
    EXPECT_EQ((session.*concatenate)("absent", std::string(5000, 'v')), Code::not_stored);
    ASSERT_EQ(session.set("key", half), Code::stored);
    EXPECT_EQ((session.*concatenate)("key", half), Code::too_large);
    EXPECT_EQ((session.*concatenate)("key", std::string(5000, 'v')), Code::too_large);
    EXPECT_EQ(session.get("key"), half) << "it stays";
    EXPECT_EQ((session.*concatenate)("key", "."), Code::stored);
    EXPECT_EQ((session.*concatenate)("key", {}), Code::stored) << "of no bytes at no address";
    EXPECT_EQ(session.get("key")->size(), half.size() + 1);
  }
}

TEST(Embedded, BadOptionsAreRefusedInTheirOwnWords) {
  Options o = embedded_options();
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4 << 20} - 1, (std::uint64_t{128} << 30) + 1}) {
    o.memory_bytes = bytes;
    EXPECT_EQ(refusal_of(o), "memory_bytes must be from 4 MiB to 128 GiB");
  }
  o = embedded_options();
  for (const std::uint32_t threads : {0u, 65537u}) {
    o.threads_max = threads;
    EXPECT_EQ(refusal_of(o), "threads_max must be from 1 to 65536");
  }
  EngineOptions engine;
  engine.memory_bytes = memory_bytes_limit + 1;
  EXPECT_EQ(message_of<std::invalid_argument>([&] { const Engine e(engine); }),
            "the memory limit must be from 4 MiB to 128 GiB");
}

TEST(Embedded, AGpuThatIsNotThereIsNamed) {
  if (cuda_device_count().count != 0) GTEST_SKIP() << "there is a GPU";
  Options o = embedded_options();
  o.gpus = 1;
  const std::string said = message_of<std::runtime_error>([&] { const Store store(o); });
  EXPECT_EQ(said.rfind("gpus: 1 was asked for, but no GPU was found: ", 0), 0u) << said;
}

TEST(Embedded, OneThreadTooManyIsToldTheOption) {
  Options o = embedded_options();
  o.threads_max = 2;
  Store store(o);
  const Session first = store.session();
  std::optional<Session> second(store.session());
  const auto third = [&] { store.set("key", "value"); };
  EXPECT_EQ(message_of<std::runtime_error>(third), "threads_max (2) threads use the store already");
  second.reset();
  third();
}

// A thread remembers its session with the store that it has used last, by the store's number.
TEST(Embedded, AThreadUsesStoresInTurn) {
  std::optional<Store> a(Options{.memory_bytes = std::uint64_t{4} << 20}),
      b(Options{.memory_bytes = std::uint64_t{4} << 20});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(a->set("key", "of a"), Code::stored);
    EXPECT_EQ(b->set("key", "of b"), Code::stored);
    EXPECT_EQ(a->get("key"), "of a");
    EXPECT_EQ(b->get("key"), "of b");
  }
  b.reset();
  b.emplace(Options{.memory_bytes = std::uint64_t{4} << 20});
  EXPECT_EQ(b->get("key"), std::nullopt);
  EXPECT_EQ(a->get("key"), "of a");
}

TEST(EmbeddedDeathTest, ASessionMustBeGoneBeforeItsStore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::optional<Store> store(std::in_place, embedded_options());
        const Session session = store->session();
        store.reset();
      },
      "tandem: Store destroyed while a Session is open");
}

// --- C
// ----------------------------------------------------------------------------------------------------------------

TEST(EmbeddedInC, OptionsThatWereNotInitialisedAreRefused) {
  for (const int fill : {0, 0xff, 1}) {
    tandem_options o;
    std::memset(&o, fill, sizeof o);
    char error[128] = "";
    EXPECT_EQ(tandem_open(&o, error, sizeof error), nullptr);
    EXPECT_STREQ(error, "options were not initialised: call tandem_options_init()") << fill;
  }
}

TEST(EmbeddedInC, SuccessLeavesNoReason) {
  tandem_options o;
  tandem_options_init(&o, sizeof o);
  o.memory_bytes = embedded_bytes;
  o.item_bytes_max = 1024;
  char error[128] = "of before";
  tandem_store* const store = tandem_open(&o, error, sizeof error);
  ASSERT_NE(store, nullptr) << error;
  EXPECT_STREQ(error, "");
  const std::string half(600, 'h');
  EXPECT_EQ(tandem_append(store, "key", 3, half.data(), half.size()), TANDEM_NOT_STORED);
  EXPECT_EQ(tandem_set(store, "key", 3, half.data(), half.size(), 0, 0), TANDEM_STORED);
  EXPECT_EQ(tandem_append(store, "key", 3, half.data(), half.size()), TANDEM_TOO_LARGE);
  tandem_close(store);
}

TEST(EmbeddedInC, TheHeaderHasTheLibrarysVersion) {
  const std::string header = std::to_string(TANDEM_VERSION_MAJOR) + "." + std::to_string(TANDEM_VERSION_MINOR) + "." +
                             std::to_string(TANDEM_VERSION_PATCH);
  EXPECT_EQ(header, tandem_version());
}

}  // namespace
}  // namespace tandem
