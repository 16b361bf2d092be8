#include "codec/credentials.hpp"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tandem {
namespace {

using Format = Credentials::Format;

// A file that is removed when the test ends.
class File {
 public:
  explicit File(std::string_view text)
      : path_(std::filesystem::temp_directory_path() / ("tandem_credentials." + std::to_string(getpid()))) {
    write(text);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path_); }
  void write(std::string_view text) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << text; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string error_of(std::string_view text, Format format) {
  try {
    Credentials::from_text(text, format);
  } catch (const CredentialsError& error) {
    return error.what();
  }
  return {};
}

TEST(Credentials, AuthFile) {
  const auto all = Credentials::from_text("user:pass\r\nother:with:colon\nuser:second\nempty:\n:nobody\nlast:line",
                                          Format::auth_file);
  EXPECT_TRUE(all->check("user", "pass"));
  EXPECT_TRUE(all->check("user", "second"));
  EXPECT_TRUE(all->check("other", "with:colon"));
  EXPECT_TRUE(all->check("last", "line"));
  for (const auto& [user, password] :
       std::initializer_list<std::pair<const char*, const char*>>{{"user", "pas"},
                                                                  {"user", "passs"},
                                                                  {"user", "pass\r"},
                                                                  {"use", "pass"},
                                                                  {"users", "pass"},
                                                                  {"User", "pass"},
                                                                  {"other", "with"},
                                                                  {"other", "pass"},
                                                                  {"user", ""},
                                                                  {"empty", ""},
                                                                  {"", "nobody"},
                                                                  {"", ""},
                                                                  {"x", "y"},
                                                                  {"user", "passpass"},
                                                                  {"useruser", "pass"}}) {
    EXPECT_FALSE(all->check(user, password)) << user << " " << password;
  }
  EXPECT_FALSE(all->check("user", {"pass\0", 5}));
  EXPECT_FALSE(Credentials::from_text("", Format::auth_file)->check("user", "pass"));
}

TEST(Credentials, AuthFileMustBeWhole) {
  EXPECT_NE(error_of("user:pass\nnocolon\n", Format::auth_file).find("Should be 'user:password' (line 2)"),
            std::string::npos);
  EXPECT_NE(error_of("user:pass\n\n", Format::auth_file).find("malformed"), std::string::npos);
  EXPECT_NE(error_of(std::string("us\0er:pass\n", 11), Format::auth_file).find("malformed"), std::string::npos);
  EXPECT_NE(error_of("user:" + std::string(251, 'x') + "\n", Format::auth_file).find("255"), std::string::npos);
  EXPECT_EQ(error_of("user:" + std::string(250, 'x') + "\n", Format::auth_file), "");
  std::string many;
  for (std::size_t i = 0; i < Credentials::entries_max; ++i) many += "user:pass\n";
  EXPECT_EQ(error_of(many, Format::auth_file), "");
  EXPECT_NE(error_of(many + "user:pass\n", Format::auth_file).find("1024 entries"), std::string::npos);
}

TEST(Credentials, SaslFile) {
  const auto all = Credentials::from_text("# remark\n\nuser:pass:extra:\nuser:later\nplain:word\n", Format::sasl_file);
  EXPECT_TRUE(all->check("user", "pass"));
  EXPECT_TRUE(all->check("user", "pass:extra"));
  EXPECT_TRUE(all->check("plain", "word"));
  EXPECT_FALSE(all->check("user", "later")) << "the first line of a user counts";
  EXPECT_FALSE(all->check("user", "pas"));
  EXPECT_FALSE(all->check("user", "pass:"));
  EXPECT_FALSE(all->check("user", "pass:ex"));
}

TEST(Credentials, PlainMessages) {
  using namespace std::string_literals;
  const auto all = Credentials::from_text("user:pass\n", Format::sasl_file);
  EXPECT_TRUE(all->check_plain("\0user\0pass"s));
  EXPECT_TRUE(all->check_plain("user\0user\0pass"s));
  for (const std::string& bad : {""s, "\0"s, "\0\0"s, "user"s, "user pass"s, "\0user"s, "\0user\0"s, "\0\0pass"s,
                                 "\0user\0pass\0"s, "\0user\0pass\0x"s, "other\0user\0pass"s, "\0user\0pas"s}) {
    EXPECT_FALSE(all->check_plain(bad)) << testing::PrintToString(bad);
  }
}

TEST(Credentials, ReloadKeepsWhatWasThereWhenItFails) {
  const File file("user:old\n");
  Credentials credentials(file.path(), Format::auth_file);
  file.write("user:new\n");
  EXPECT_TRUE(credentials.check("user", "old"));
  credentials.reload();
  EXPECT_FALSE(credentials.check("user", "old"));
  EXPECT_TRUE(credentials.check("user", "new"));
  file.write("broken");
  EXPECT_THROW(credentials.reload(), CredentialsError);
  EXPECT_TRUE(credentials.check("user", "new"));
  std::filesystem::remove(file.path());
  EXPECT_THROW(credentials.reload(), CredentialsError);
  EXPECT_TRUE(credentials.check("user", "new"));
}

TEST(Credentials, FilesThatCannotBeRead) {
  EXPECT_THROW(Credentials("/nonexistent/file", Format::auth_file), CredentialsError);
  EXPECT_THROW(Credentials("/", Format::auth_file), CredentialsError);
  EXPECT_THROW(Credentials("/dev/zero", Format::sasl_file), CredentialsError) << "no end";
}

// A check sees one file or the other: both have the user, with different passwords.
TEST(Credentials, ReloadBesideChecks) {
  const File file("user:a\n");
  Credentials credentials(file.path(), Format::auth_file);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) {
      if (credentials.check("user", "c")) ADD_FAILURE();
      if (!credentials.check("always", "here") && credentials.check("always", "there")) ADD_FAILURE();
    }
  });
  for (int i = 0; i < 200; ++i) {
    file.write(i % 2 == 0 ? "user:b\nalways:here\n" : "always:here\nuser:a\n");
    credentials.reload();
    EXPECT_TRUE(credentials.check("always", "here"));
  }
  done.store(true);
  reader.join();
}

// Machine instructions of a process that checks the guess and exits; 0: single steps are not permitted here.
std::uint64_t steps_to_check(const Credentials& credentials, std::string_view user, std::string_view password) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    static_cast<void>(credentials.check(user, password));  // resolves symbols and faults pages before counting
    raise(SIGSTOP);
    static_cast<void>(credentials.check(user, password));
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  std::uint64_t steps = 0;
  while (WIFSTOPPED(status) && ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0 && waitpid(pid, &status, 0) == pid)
    ++steps;
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 77 ? 0 : steps;
}

// Counts instructions rather than time, which is noisy: the count is the same for any partly right guess and any entry.
TEST(Credentials, EveryGuessOfALengthTakesTheSameInstructions) {
#if defined(TANDEM_SANITIZED)
  GTEST_SKIP() << "a sanitizer's checks are instructions, too";
#endif
  for (const Format format : {Format::auth_file, Format::sasl_file}) {
    const auto all = Credentials::from_text("first:horse-staple\nalice:correct-horse\nother:alice-correct", format);
    const std::uint64_t wrong = steps_to_check(*all, "xxxxx", "xxxxxxxxxxxxx");
    if (wrong == 0) GTEST_SKIP() << "ptrace is not allowed here";
    EXPECT_GT(wrong, 100u);
    for (const auto& [user, password] : std::initializer_list<std::pair<const char*, const char*>>{
             {"alice", "xxxxxxxxxxxxx"},     // an existing user
             {"alice", "cxxxxxxxxxxxx"},     // the first byte
             {"alice", "correct-horsx"},     // all but the last
             {"alice", "xorrect-horse"},     // all but the first
             {"xxxxx", "correct-horse"},     // another user's
             {"first", "correct-horse"},     // another user's, of another length
             {"other", "alice-correct"}}) {  // the last entry, correct
      const bool passes = all->check(user, password);
      // Success is no secret: a right guess may take some more instructions afterwards.
      const std::uint64_t more = passes ? 10 : 0;
      const std::uint64_t steps = steps_to_check(*all, user, password);
      EXPECT_GE(steps + more, wrong) << user << ' ' << password;
      EXPECT_LE(steps, wrong + more) << user << ' ' << password;
    }
    // Guesses of other lengths may take longer: the client knows the length.
    EXPECT_GT(steps_to_check(*all, "alice", "correct-horse-battery"), wrong);
  }
}

}  // namespace
}  // namespace tandem
