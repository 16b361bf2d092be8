#include "net/secret_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace tandem::net {
namespace {

TEST(SecretFiles, CertificateThatHasExpired) {
  constexpr std::int64_t end = 1'764'057'600;
  EXPECT_EQ(expiry_warning("a.pem", end, end - 1), "");
  EXPECT_EQ(expiry_warning("a.pem", end, end),
            "the certificate a.pem expired on 2025-11-25 08:00:00 UTC: clients that check it refuse to connect");
}

TEST(SecretFiles, PasswordFileThatOthersCanRead) {
  const std::string path = std::filesystem::temp_directory_path() / "tandem_secret_files_test";
  std::ofstream(path) << "user:word\n";
  for (const unsigned mode : {0600u, 0640u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(password_file_warning(path), "");
  }
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(password_file_warning(path), "the password file " + path +
                                             " can be read by every user of the machine (mode 644): 600 or 640 is "
                                             "enough");
  std::filesystem::remove(path);
  EXPECT_EQ(password_file_warning(path), "");
}

}  // namespace
}  // namespace tandem::net
