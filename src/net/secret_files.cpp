#include "net/secret_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>

namespace tandem::net {

std::string date_text(std::int64_t unix_s) {
  const std::time_t time = unix_s;
  std::tm date{};
  gmtime_r(&time, &date);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
                     date.tm_hour, date.tm_min, date.tm_sec);
}

std::string expiry_warning(const std::string& certificate, std::int64_t not_after, std::int64_t now_unix_s) {
  if (not_after > now_unix_s) return {};
  return fmt::format("the certificate {} expired on {}: clients that check it refuse to connect", certificate,
                     date_text(not_after));
}

std::string password_file_warning(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || (info.st_mode & S_IROTH) == 0) return {};
  return fmt::format("the password file {} can be read by every user of the machine (mode {:o}): 600 or 640 is enough",
                     path, info.st_mode & 07777u);
}

}  // namespace tandem::net
