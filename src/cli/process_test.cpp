#include "cli/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "cli/options.hpp"
#include "cli/run_server.hpp"
#include "cli/signals.hpp"

namespace tandem::cli {
namespace {

class TemporaryFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tandem_process_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

using PidFileTest = TemporaryFolder;

TEST_F(PidFileTest, HoldsThePidUntilItGoes) {
  const std::string path = folder_ / "t.pid";
  {
    PidFile file;
    EXPECT_EQ(file.write(path), "");
    std::ifstream in(path);
    pid_t pid = 0;
    EXPECT_TRUE(in >> pid);
    EXPECT_EQ(pid, getpid());
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(PidFileTest, WarnsOfARunningProcess) {
  const std::string path = folder_ / "t.pid";
  std::ofstream(path) << getppid() << '\n';
  PidFile file;
  EXPECT_EQ(file.write(path),
            "WARNING: The pid file contained the following (running) pid: " + std::to_string(getppid()));
}

TEST_F(PidFileTest, SaysWhyItCannotBeWritten) {
  const std::string path = folder_ / "none" / "t.pid";
  PidFile file;
  try {
    file.write(path);
    FAIL();
  } catch (const CommandError& error) {
    EXPECT_EQ(error.what(), "Could not write the pid file " + path + ".tmp: No such file or directory");
    EXPECT_EQ(error.exit_code(), EX_CANTCREAT);
  }
}

TEST(Process, AbsolutePath) {
  EXPECT_EQ(absolute_path(""), "");
  EXPECT_EQ(absolute_path("/a/b"), "/a/b");
  EXPECT_EQ(absolute_path("b"), (std::filesystem::current_path() / "b").string());
}

// Each in a process of its own, whose limits are its own.
TEST(ProcessDeathTest, FileLimitIsRaisedToFitTheConnections) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 100;
        setrlimit(RLIMIT_NOFILE, &limit);
        raise_file_limit(200, 4);
        getrlimit(RLIMIT_NOFILE, &limit);
        _exit(limit.rlim_cur > 200 && limit.rlim_cur < 400 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        rlimit before{};
        getrlimit(RLIMIT_NOFILE, &before);
        raise_file_limit(1, 1);
        rlimit after{};
        getrlimit(RLIMIT_NOFILE, &after);
        _exit(after.rlim_cur == before.rlim_cur ? 7 : 1);  // never lowered
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        try {
          raise_file_limit(4'000'000'000u, 4);
        } catch (const CommandError& error) {
          _exit(error.exit_code());
        }
        _exit(1);
      },
      testing::ExitedWithCode(EX_OSERR), "");
}

TEST(ProcessDeathTest, UnknownUser) {
  EXPECT_EXIT(
      {
        try {
          become_user("no_such_user_here", false);
        } catch (const CommandError& error) {
          _exit(error.exit_code());
        }
        _exit(1);
      },
      testing::ExitedWithCode(EX_NOUSER), "");
}

// The parent gets the code of a child that fails before it is ready.
TEST(ProcessDeathTest, DaemonsParentEndsAsItsChildDoes) {
  EXPECT_EXIT(
      {
        Daemon daemon;
        if (const auto code = daemon.start()) _exit(*code);
        _exit(71);
      },
      testing::ExitedWithCode(71), "");
  EXPECT_EXIT(
      {
        Daemon daemon;
        if (const auto code = daemon.start()) _exit(*code);
        kill(getpid(), SIGKILL);
      },
      testing::ExitedWithCode(128 + SIGKILL), "");
  EXPECT_EXIT(
      {
        Daemon daemon;
        if (const auto code = daemon.start()) _exit(*code == 0 ? 7 : 1);
        daemon.leave(false);
        daemon.ready(false);
        _exit(71);  // nobody waits any more
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, AreTakenByAThread) {
  EXPECT_EXIT(
      {
        hold_signals();
        kill(getpid(), SIGHUP);  // before anybody listens
        kill(getpid(), SIGPIPE);
        std::promise<int> first;
        std::promise<int> second;
        int count = 0;
        {
          Signals signals([&](int number) { (count++ == 0 ? first : second).set_value(number); });
          const int hup = first.get_future().get();
          kill(getpid(), SIGTERM);
          const int term = second.get_future().get();
          if (hup != SIGHUP || term != SIGTERM) _exit(1);
        }
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, SecondInterruptEndsAtOnce) {
  EXPECT_EXIT(
      {
        hold_signals();
        std::promise<void> stopping;
        Signals signals([&](int number) {
          if (number != SIGINT) _exit(1);
          stopping.set_value();
          std::this_thread::sleep_for(std::chrono::minutes(1));  // a stop that hangs
        });
        kill(getpid(), SIGINT);
        stopping.get_future().wait();
        kill(getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::minutes(1));
        _exit(1);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(RunServer, DescribesAddresses) {
  ServerOptions options;
  EXPECT_EQ(describe_addresses(options, 11211, 11211), "127.0.0.1:11211 (TCP, UDP)");
  EXPECT_EQ(describe_addresses(options, 11211, 0), "127.0.0.1:11211 (TCP)");
  EXPECT_EQ(describe_addresses(options, 0, 11212), "127.0.0.1:11212 (UDP)");
  EXPECT_EQ(describe_addresses(options, 11211, 11212), "127.0.0.1:11211 (TCP; UDP on 11212)");
  options.listen = {"*", "::1", "[::1]:5", "localhost:6"};
  EXPECT_EQ(describe_addresses(options, 11211, 0), "*:11211, [::1]:11211, [::1]:5, localhost:6 (TCP)");
  options.unix_path = "/run/tandem.sock";
  EXPECT_EQ(describe_addresses(options, 0, 0), "/run/tandem.sock");
}

TEST(PageAddress, IsOneForABrowser) {
  EXPECT_EQ(page_address("127.0.0.1:9150", 9150), "http://127.0.0.1:9150/");
  EXPECT_EQ(page_address("localhost:0", 40000), "http://localhost:40000/");
  EXPECT_EQ(page_address("[::1]:9150", 9150), "http://[::1]:9150/");
  EXPECT_EQ(page_address("*:9150", 9150), "http://127.0.0.1:9150/, and at every other address");
}

}  // namespace
}  // namespace tandem::cli
