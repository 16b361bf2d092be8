// Any bytes as a password file of either format, and as a guess: every entry's user and password pass, no other pair
// does, or the file is refused with a message.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/platform.hpp"
#include "codec/credentials.hpp"

namespace {

using tandem::Credentials;

// Reference reading of the file. A password of the SASL file may end at any colon.
bool has_entry(std::string_view text, Credentials::Format format, std::string_view user, std::string_view password) {
  if (user.empty() || password.empty()) return false;
  std::string line;
  for (const char c : std::string(text) + '\n') {
    if (c != '\n') {
      line += c;
      continue;
    }
    std::string entry = std::exchange(line, {});
    const std::size_t colon = entry.find(':');
    if (colon == std::string::npos || entry.find('\0') != std::string::npos) continue;
    if (const std::size_t end = entry.find('\r', colon); end != std::string::npos) entry.resize(end);
    if (entry.substr(0, colon) != user) continue;
    const std::string told = entry.substr(colon + 1);
    const bool sasl = format == Credentials::Format::sasl_file;
    if (told == password || (sasl && told.starts_with(std::string(password) + ':'))) return true;
    if (sasl) return false;  // the user's first entry counts
  }
  return false;
}

void look(std::string_view text, std::string_view guess, Credentials::Format format) {
  std::unique_ptr<Credentials> credentials;
  try {
    credentials = Credentials::from_text(text, format);
  } catch (const tandem::CredentialsError& error) {
    TD_ASSERT(*error.what() != 0);
    return;
  }
  const std::size_t space = guess.find(' ');
  if (space != std::string_view::npos) {
    const std::string_view user = guess.substr(0, space), password = guess.substr(space + 1);
    TD_ASSERT(credentials->check(user, password) == has_entry(text, format, user, password));
  }
  // The first line's user and password.
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view user = line.substr(0, colon), told = line.substr(colon + 1);
  const std::string_view password = told.substr(0, told.find('\r'));
  TD_ASSERT(credentials->check(user, password) == has_entry(text, format, user, password));
  const std::string longer = std::string(password) + 'x';
  TD_ASSERT(credentials->check(user, longer) == has_entry(text, format, user, longer));
  const std::string message = std::string(1, '\0') + std::string(user) + '\0' + std::string(password);
  TD_ASSERT(credentials->check_plain(message) <= has_entry(text, format, user, password));
}

}  // namespace

// The last line is the guess: user, a space, password.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t last = input.rfind('\n');
  const std::string_view text = last == std::string_view::npos ? input : input.substr(0, last + 1);
  const std::string_view guess = last == std::string_view::npos ? std::string_view{} : input.substr(last + 1);
  look(text, guess, Credentials::Format::auth_file);
  look(text, guess, Credentials::Format::sasl_file);
  return 0;
}
