#include "codec/credentials.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "codec/secret.hpp"

namespace tandem {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

std::string read_file(const std::string& path) {
  const auto fail = [&path](int error) {
    throw CredentialsError(
        CredentialsError::What::unreadable,
        "Could not open authfile [" + path + "] for reading, error " + std::generic_category().message(error));
  };
  errno = 0;
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) fail(errno);
  std::string text(Credentials::file_bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) fail(errno);
  if (text.size() > Credentials::file_bytes_max) {
    throw CredentialsError(
        CredentialsError::What::malformed,
        "Authfile [" + path + "] is longer than " + std::to_string(Credentials::file_bytes_max) + " bytes");
  }
  return text;
}

}  // namespace

bool is_same_secret(std::string_view secret, std::string_view guess) noexcept {
  std::size_t difference = secret.size() ^ guess.size();
  const std::string_view other = secret.empty() ? std::string_view("\0", 1) : secret;
  for (std::size_t i = 0, k = 0; i < guess.size(); ++i) {
    difference |= static_cast<unsigned char>(guess[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(other[k]));
    k = k + 1 == other.size() ? 0 : k + 1;
    asm volatile("" : "+r"(difference));  // keeps the compiler from leaving the loop early
  }
  return difference == 0;
}

Credentials::Credentials(std::string path, Format format) : path_(std::move(path)), format_(format) { reload(); }

Credentials::Credentials(Format format) : format_(format) {}

std::unique_ptr<Credentials> Credentials::from_text(std::string_view text, Format format) {
  std::unique_ptr<Credentials> credentials(new Credentials(format));
  credentials->entries_ = std::make_shared<const Entries>(credentials->parse(text));
  return credentials;
}

void Credentials::reload() {
  auto fresh = std::make_shared<const Entries>(parse(read_file(path_)));
  const std::lock_guard lock(mutex_);
  entries_.swap(fresh);
}

Credentials::Entries Credentials::parse(std::string_view text) const {
  Entries entries;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    const auto complain = [&](const std::string& what) {
      throw CredentialsError(CredentialsError::What::malformed,
                             "Authfile [" + path_ + "] " + what + " (line " + std::to_string(number) + ")");
    };
    if (line.size() > line_bytes_max)
      complain("has an entry of more than " + std::to_string(line_bytes_max) + " bytes");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.find('\0') != std::string_view::npos) {
      if (format_ == Format::sasl_file) continue;
      complain("has a malformed entry. Should be 'user:password'");
    }
    std::string_view password = line.substr(colon + 1);
    password = password.substr(0, password.find('\r'));
    if (entries.size() == entries_max) complain("has more than " + std::to_string(entries_max) + " entries");
    entries.push_back({std::string(line.substr(0, colon)), std::string(password)});
  }
  return entries;
}

std::shared_ptr<const Credentials::Entries> Credentials::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

bool Credentials::check(std::string_view user, std::string_view password) const {
  const bool sasl = format_ == Format::sasl_file;
  // No entry is longer, and the time of a comparison grows with the guess.
  if (user.size() > line_bytes_max || password.size() > line_bytes_max) return false;
  unsigned passed = 0, seen = 0;
  const std::shared_ptr<const Entries> held = entries();  // a concurrent reload may replace them
  for (const Entry& entry : *held) {
    const auto is_user = static_cast<unsigned>(is_same_secret(entry.user, user));
    auto good = static_cast<unsigned>(is_same_secret(entry.password, password));
    // The text up to each later colon is an accepted password, too.
    for (std::size_t colon = entry.password.find(':'); sasl && colon != std::string::npos;
         colon = entry.password.find(':', colon + 1))
      good |= static_cast<unsigned>(is_same_secret(std::string_view(entry.password).substr(0, colon), password));
    passed |= is_user & good & ~(sasl ? seen : 0u);
    seen |= is_user;
  }
  return passed != 0 && !user.empty() && !password.empty();
}

bool Credentials::check_plain(std::string_view message) const {
  const std::size_t first = message.find('\0');
  if (first == std::string_view::npos) return false;
  const std::size_t second = message.find('\0', first + 1);
  if (second == std::string_view::npos) return false;
  const std::string_view identity = message.substr(0, first);
  const std::string_view user = message.substr(first + 1, second - first - 1);
  const std::string_view password = message.substr(second + 1);
  if (password.find('\0') != std::string_view::npos) return false;
  return (identity.empty() || identity == user) && check(user, password);
}

}  // namespace tandem
