#include "process/start_checks.hpp"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>

#include "heap/memory_file.hpp"

namespace tandem::cli {
namespace {

TEST(StartChecks, MemoryFileThatItsFileSystemHasNoRoomFor) {
  const std::string path = std::filesystem::temp_directory_path() / "tandem_start_checks_test";
  struct statvfs system{};
  ASSERT_EQ(statvfs(std::filesystem::temp_directory_path().c_str(), &system), 0);
  const std::uint64_t all = std::uint64_t{system.f_blocks} * system.f_frsize;
  if (all == 0) GTEST_SKIP() << "a file system without a limit";
  EXPECT_EQ(memory_file_warning("", 2 * all), "");
  EXPECT_EQ(memory_file_warning("/nonexistent/folder/file", 2 * all), "") << "opening it says why";
  EXPECT_EQ(memory_file_warning(path, 4096), "");
  const std::string warning = memory_file_warning(path, 2 * all);
  EXPECT_TRUE(warning.starts_with("memory file " + path + ": its file system has room for ")) << warning;
  EXPECT_TRUE(warning.ends_with(": the store stays below that")) << warning;
}

TEST(StartChecks, CheckFindsWhatWouldEndAStart) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "tandem_start_checks_folder";
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  const auto code = [](auto change) {
    Settings settings = serve_defaults();
    change(settings);
    return check_settings(settings, {});
  };
  const std::string good = write("good", "user:word\n"), bad = write("bad", "word\n");
  EXPECT_EQ(code([](Settings&) {}), 0);
  EXPECT_EQ(code([&](Settings& s) { s.server.auth_file = good; }), 0);
  EXPECT_EQ(code([&](Settings& s) { s.server.auth_file = bad; }), 78);
  EXPECT_EQ(code([&](Settings& s) { s.server.auth_file = folder / "none"; }), 66);
  EXPECT_EQ(code([&](Settings& s) { s.server.sasl = true, s.server.sasl_file = folder / "none"; }), 66);
  EXPECT_EQ(code([&](Settings& s) { s.server.tls.enabled = true, s.server.tls.certificate = good; }), 64);
  EXPECT_EQ(code([&](Settings& s) { s.engine.memory_file = folder / "none" / "file"; }), 71);
  EXPECT_EQ(code([&](Settings& s) { s.process.pid_file = folder / "none" / "file"; }), 73);
  EXPECT_EQ(code([&](Settings& s) { s.process.user = "no_such_user_here"; }), 67);
  EXPECT_EQ(code([&](Settings& s) { s.engine.memory_file = folder / "file"; }), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "file")) << "nothing is made";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::cli
