#include "monitor/token.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "codec/base64.hpp"
#include "codec/credentials.hpp"
#include "codec/secret.hpp"

namespace tandem::monitor {
namespace {

// RFC 7235's schemes are compared without case.
bool takes_scheme(std::string_view& text, std::string_view scheme) noexcept {
  const auto is_same_letter = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (text.size() <= scheme.size() || text[scheme.size()] != ' ') return false;
  if (!std::equal(scheme.begin(), scheme.end(), text.begin(),
                  [&](char wanted, char c) { return is_same_letter(c, wanted); }))
    return false;
  text.remove_prefix(std::min(text.find_first_not_of(' ', scheme.size()), text.size()));
  return true;
}

std::string read_token(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::string line;
  if (!file || (!std::getline(file, line) && file.bad()))
    throw CredentialsError(
        CredentialsError::What::unreadable,
        fmt::format("metrics token {}: {}", path, std::generic_category().message(errno != 0 ? errno : EIO)));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  const bool is_printable = std::ranges::all_of(line, [](char c) { return c > ' ' && c < 0x7f; });
  if (line.size() < Token::bytes_min || line.size() > Token::bytes_max || !is_printable)
    throw CredentialsError(
        CredentialsError::What::malformed,
        fmt::format("metrics token {}: the first line must be {} to {} ASCII characters without a space", path,
                    Token::bytes_min, Token::bytes_max));
  return line;
}

}  // namespace

Token::Token(std::string path) : path_(std::move(path)), token_(read_token(path_)) {}

void Token::reload() {
  std::string fresh = read_token(path_);
  const std::lock_guard lock(mutex_);
  token_ = std::move(fresh);
}

bool Token::passes(std::string_view authorization) const {
  std::array<char, 2 * bytes_max> decoded;
  std::string_view guess = authorization;
  if (takes_scheme(guess, "basic")) {
    if (codec::base64_binary_bytes_max(guess.size()) > decoded.size()) return false;
    const std::string_view pair(decoded.data(), codec::base64_decode(decoded.data(), guess.data(), guess.size()));
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos) return false;
    guess = pair.substr(colon + 1);
  } else if (!takes_scheme(guess, "bearer")) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  return is_same_secret(token_, guess);
}

}  // namespace tandem::monitor
