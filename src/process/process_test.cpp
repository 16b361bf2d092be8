#include "process/process.hpp"

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

#include "options/options.hpp"
#include "process/run_server.hpp"
#include "process/signals.hpp"

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

// Each test has its own process, so its limits do not affect other tests.
TEST(ProcessDeathTest, FileLimitIsRaisedToFitTheConnections) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 100;
        setrlimit(RLIMIT_NOFILE, &limit);
        const unsigned fits = raise_file_limit(200, 50, true);
        getrlimit(RLIMIT_NOFILE, &limit);
        _exit(fits == 200 && limit.rlim_cur == 250 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        rlimit before{};
        getrlimit(RLIMIT_NOFILE, &before);
        raise_file_limit(1, 1, true);
        rlimit after{};
        getrlimit(RLIMIT_NOFILE, &after);
        _exit(after.rlim_cur == before.rlim_cur ? 7 : 1);  // never lowered
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        try {
          raise_file_limit(4'000'000'000u, 50, true);
        } catch (const CommandError& error) {
          _exit(error.exit_code());
        }
        _exit(1);
      },
      testing::ExitedWithCode(EX_OSERR), "");
}

// What raise_file_limit() does below a hard limit that cannot be raised, as the exit code of a process of its own.
int connections_below(rlim_t hard, unsigned connections, unsigned own_files, bool must_fit) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{hard, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(255);
    // With the right to raise it, the system's own limit is the bound.
    if (geteuid() == 0 && setuid(65534) != 0) _exit(254);
    try {
      _exit(static_cast<int>(raise_file_limit(connections, own_files, must_fit)));
    } catch (const CommandError& error) {
      const std::string wanted =
          "connections = 30 needs 330 open files, the hard limit is 100: raise LimitNOFILE (ulimit -Hn)";
      _exit(std::string_view(error.what()).starts_with(wanted) ? 253 : 252);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(ProcessDeathTest, ConnectionsAreLoweredToWhatTheHardLimitLetsThrough) {
  EXPECT_EQ(connections_below(250, 200, 50, true), 200);
  EXPECT_EQ(connections_below(200, 200, 50, true), 150);
  EXPECT_EQ(connections_below(200, 200, 50, false), 150);
  EXPECT_EQ(connections_below(200, 201, 50, false), 150);
  EXPECT_EQ(connections_below(200, 201, 50, true), 252) << "memcached's message";
  EXPECT_EQ(connections_below(64, 60, 50, true), 16) << "a small limit is shared";
  EXPECT_EQ(connections_below(100, 30, 300, false), 253);
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
        _exit(71);  // the parent no longer waits
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, AreTakenByAThread) {
  EXPECT_EXIT(
      {
        hold_signals();
        kill(getpid(), SIGHUP);  // before any thread waits for it
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
