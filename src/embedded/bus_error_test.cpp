// A memory file that cannot be read back, here because it was shortened while the store was open.
#include "heap/bus_error.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <csignal>
#include <fstream>

#include "embedded/restart_fixture.hpp"

namespace tandem {
namespace {

constexpr int exit_code = 74;
constexpr const char* what_is_said = "memory file .*: a page cannot be read back; the process ends";

bool by_signal(int status) {
#if defined(TANDEM_SANITIZED)
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);  // the sanitizer's handler was there before
#else
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
#endif
}

class BusErrorTest : public RestartTest {
 protected:
  // In a child: reads an item that no longer exists.
  void meet_a_page_that_is_gone(std::uint64_t bytes_left = MemoryFile::pages_at) const {
    Store store(options());
    if (store.set("k", "v") != Code::stored) _exit(1);
    if (truncate(file.path().c_str(), static_cast<off_t>(bytes_left)) != 0) _exit(2);
    _exit(store.get("k") ? 3 : 4);
  }
  std::uint64_t state() const { return get<std::uint64_t>(offsetof(FileHeader, state)); }
};

TEST_F(BusErrorTest, EndsWithAnExitCodeIfThereIsOne) {
  EXPECT_EXIT(
      {
        end_by_bus_errors_with(exit_code);
        meet_a_page_that_is_gone();
      },
      testing::ExitedWithCode(exit_code), what_is_said);
  EXPECT_EQ(state(), FileHeader::unreadable);
}

TEST_F(BusErrorTest, EndsByTheSignalIfThereIsNone) {
  EXPECT_EXIT(meet_a_page_that_is_gone(), by_signal, what_is_said);
  EXPECT_EQ(state(), FileHeader::unreadable);
}

TEST_F(BusErrorTest, TheProgramsOwnHandlerIsCalled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process: in this one our handler may be installed already
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { _exit(9); });
        meet_a_page_that_is_gone();
      },
      testing::ExitedWithCode(9), what_is_said);
}

TEST_F(BusErrorTest, TheNextStoreBeginsEmpty) {
  EXPECT_EXIT(meet_a_page_that_is_gone(), by_signal, "");
  Engine engine(engine_options());
  EXPECT_NE(said.find("could not all be read back; starting empty"), std::string::npos) << said;
  EXPECT_EQ(engine.restart().value_or(RestartReport{}).items, 0u);
}

// A mark would make it look like another program's file, and the next start would fail.
TEST_F(BusErrorTest, AFileWithoutItsHeaderIsLeftAsItIs) {
  EXPECT_EXIT(meet_a_page_that_is_gone(0), by_signal, what_is_said);
  EXPECT_EQ(std::filesystem::file_size(file.path()), 0u);
  Engine engine(engine_options());
  EXPECT_EQ(said, "");
}

TEST_F(BusErrorTest, OtherMemorysAreNotTheFiles) {
  EXPECT_EXIT(
      {
        end_by_bus_errors_with(exit_code);
        Store store(options());
        const std::string other = file.path() + ".other";
        const int fd = open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
        unlink(other.c_str());
        auto* const at = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
        if (store.set("k", "v") != Code::stored) _exit(1);
        _exit(at[0]);  // the file is empty
      },
      by_signal, "");
  EXPECT_EQ(state(), FileHeader::in_use);
}

TEST_F(BusErrorTest, SentBySomebodyItEndsAsEver) {
  EXPECT_EXIT(
      {
        end_by_bus_errors_with(exit_code);
        Store store(options());
        if (store.set("k", "v") != Code::stored) _exit(1);
        raise(SIGBUS);
        _exit(0);
      },
      by_signal, "");
  EXPECT_EQ(state(), FileHeader::in_use);
}

}  // namespace
}  // namespace tandem
