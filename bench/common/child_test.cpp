#include "bench/common/child.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace tandem::bench {
namespace {

using namespace std::chrono_literals;

bool comes_true(const std::function<bool()>& what) {
  for (int tries = 0; tries < 2000; ++tries) {
    if (what()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// Also true for a zombie that no process reaps (in a container without an init).
bool is_gone(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return true;
  const bool is_empty = std::fgetc(file) == EOF;
  std::fclose(file);
  return is_empty;
}

// A shell with a child, one that left its session, and an orphan that left it, too.
const std::vector<std::string> family{"sh", "-c", "sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &); wait"};

TEST(ServerChild, EndsItsWholeFamily) {
  std::vector<pid_t> pids;
  {
    ServerChild server(family, {});
    const pid_t watcher = getpid();
    ASSERT_TRUE(comes_true([&] {
      pids = process_tree(watcher);
      return pids.size() == 6;  // this process, the watcher, the shell, three that sleep
    }));
    EXPECT_NE(std::ranges::find(pids, server.pid()), pids.end());
    EXPECT_FALSE(server.ended());
    pids.erase(pids.begin());
  }
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(ServerChild, KillsWhatDoesNotEnd) {
  pid_t pid = 0;
  {
    ServerChild server({"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"}, {});
    ASSERT_TRUE(comes_true([&] { return server.output() == "ready"; }));
    pid = server.pid();
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(ServerChild, EndsWhenThisProcessIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    // A second server inherits no descriptor that would keep the first one alive.
    const ServerChild first(family, {});
    const ServerChild second(family, {});
    std::vector<pid_t> pids;
    while (pids.size() != 11) pids = process_tree(getpid());
    [[maybe_unused]] const ssize_t written = write(ends[1], pids.data(), pids.size() * sizeof(pid_t));
    pause();
    _exit(0);
  }
  pid_t pids[11];
  ASSERT_EQ(read(ends[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  for (const pid_t pid : pids) EXPECT_TRUE(comes_true([&] { return is_gone(pid); })) << pid;
  close(ends[0]);
  close(ends[1]);
}

TEST(ServerChild, TellsHowItEnded) {
  ServerChild server({"sh", "-c", "echo one; echo two >&2; exit 3"}, {});
  ASSERT_TRUE(comes_true([&] { return server.ended().has_value(); }));
  EXPECT_EQ(describe_status(*server.ended()), "with exit code 3");
  EXPECT_EQ(server.output(), "one\ntwo");
  ServerChild killed({"sh", "-c", "kill -SEGV $$"}, {});
  ASSERT_TRUE(comes_true([&] { return killed.ended().has_value(); }));
  EXPECT_EQ(describe_status(*killed.ended()), "by signal 11 (Segmentation fault)");
}

TEST(ServerChild, CannotStart) {
  try {
    const ServerChild server({"/no/such/program"}, {});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "cannot start /no/such/program: No such file or directory");
  }
  EXPECT_THROW(ServerChild({"true"}, {1023}), std::runtime_error);
}

TEST(ServerChild, CountsTheTimeAndMemoryOfItsFamily) {
  const ServerChild server({"sh", "-c", "sh -c 'while :; do :; done' & wait"}, {});
  ASSERT_TRUE(comes_true([&] { return server.cpu_s() > 0.2; }));
  EXPECT_GT(server.resident_bytes(), 100'000U);
}

TEST(RunProgram, GivesBackWhatItSaid) {
  const ProgramResult result = run_program({"sh", "-c", "echo out; echo error >&2; nproc; exit 5"}, {0});
  EXPECT_EQ(result.out, "out\n1\n");
  EXPECT_EQ(result.error, "error\n");
  EXPECT_EQ(describe_status(result.status), "with exit code 5");
}

TEST(RunProgram, IsInterrupted) {
  const InterruptScope scope;
  try {
    run_program({"sh", "-c", "kill -INT $PPID; exec sleep 1000"}, {});
    FAIL();
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.signal(), SIGINT);
  }
  // No further wait continues.
  EXPECT_THROW(wait_readable(-1, 0ms), Interrupted);
}

TEST(WaitReadable, TellsTimeFromData) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(wait_readable(ends[0], 1ms));
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_TRUE(wait_readable(ends[0], 1000s));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tandem::bench
