// Users and passwords for authentication, from a file of lines `user:password`.
//
// Thread safety: any thread. A check sees the file as it was before a reload or after it, never a mixture.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

class CredentialsError : public std::runtime_error {
 public:
  enum class What : std::uint8_t { unreadable, malformed };
  CredentialsError(What what, const std::string& text) : std::runtime_error(text), what_(what) {}
  bool is_unreadable() const noexcept { return what_ == What::unreadable; }

 private:
  What what_;
};

class Credentials {
 public:
  // memcached has two formats:
  //   auth_file  -Y: every line is an entry, and all text behind the first colon is the password
  //   sasl_file  MEMCACHED_SASL_PWDB: lines without a colon are ignored; of lines with the same user the first
  //              counts; a password ends at any later colon, where further fields may follow, or at the line's end
  enum class Format : std::uint8_t { auth_file, sasl_file };

  static constexpr std::size_t entries_max = 1024;    // every check compares all of them; memcached accepts 8 with -Y
  static constexpr std::size_t line_bytes_max = 255;  // as in memcached
  static constexpr std::size_t file_bytes_max = entries_max * (line_bytes_max + 1);

  // Reads the file. Throws CredentialsError.
  Credentials(std::string path, Format format);
  // From text instead of a file; reload() then fails.
  static std::unique_ptr<Credentials> from_text(std::string_view text, Format format);

  // Reads the file again. Throws CredentialsError, and then keeps the earlier entries.
  void reload();

  // Takes the same time for all users and passwords of the same lengths, because it compares every entry to the end. An
  // empty user or password never passes.
  bool check(std::string_view user, std::string_view password) const;
  // The same for a SASL PLAIN message: [authorization identity] NUL user NUL password. The identity, when there is one,
  // must be the user (RFC 4616 lets a server refuse any other).
  bool check_plain(std::string_view message) const;

  const std::string& path() const noexcept { return path_; }
  std::size_t size() const { return entries()->size(); }

  // For `stats`: attempts, counted when they are answered.
  void count_attempt(bool passed) noexcept {
    attempts_.fetch_add(1, std::memory_order_relaxed);
    if (!passed) failures_.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t attempts() const noexcept { return attempts_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::string user, password;
  };
  using Entries = std::vector<Entry>;

  explicit Credentials(Format format);
  Entries parse(std::string_view text) const;
  std::shared_ptr<const Entries> entries() const;

  const std::string path_;
  const Format format_;
  mutable std::mutex mutex_;                // guards the pointer; taken once per attempt
  std::shared_ptr<const Entries> entries_;  // of the last successful read
  std::atomic<std::uint64_t> attempts_{0}, failures_{0};
};

}  // namespace tandem
