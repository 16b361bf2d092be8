// The token that the monitoring endpoint asks for, from a file, so that no list of processes shows it.
//
// Thread safety: any thread. A check sees the file as it was before a reload or after it.
#pragma once
#include <mutex>
#include <string>
#include <string_view>

namespace tandem::monitor {

class Token {
 public:
  static constexpr std::size_t bytes_min = 8, bytes_max = 1024;

  // Reads the first line of the file. Throws CredentialsError.
  explicit Token(std::string path);
  // Reads the file again. Throws CredentialsError, and then keeps the earlier token.
  void reload();
  // Whether an Authorization header has the token: `Bearer TOKEN`, as Prometheus sends it, or `Basic` with the token as
  // password of any user, as browsers ask their users for it. The time does not depend on how much of it is right.
  bool passes(std::string_view authorization) const;
  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
  mutable std::mutex mutex_;  // guards token_
  std::string token_;
};

}  // namespace tandem::monitor
